#pragma once
#include <string>
#include <utility>

#include "runtime/base/status.h"

namespace rueda::core {

/// The status of a call that is wrong in itself.
inline Status wrong(std::string why) { return Status(Code::kInvalidArgument, std::move(why)); }

}  // namespace rueda::core
