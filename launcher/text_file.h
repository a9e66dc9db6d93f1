#pragma once
#include <string>

#include "runtime/base/status.h"

namespace rueda::core::launcher {

/// The whole text of a file that the user named. `what` is what it is to be: "hostfile". kInvalidArgument: it cannot be
/// read, and why: "hostfile x cannot be read: Is a directory".
Result<std::string> read_text_file(const std::string& what, const std::string& path);

}  // namespace rueda::core::launcher
