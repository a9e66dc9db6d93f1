#pragma once
#include <string>
#include <utility>

#include "runtime/base/status.h"

namespace rueda::core {

/// A call that is wrong as it stands.
inline Status wrong(std::string why) { return Status(Code::kInvalidArgument, std::move(why)); }

}  // namespace rueda::core
