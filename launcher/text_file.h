#pragma once
#include <string>

#include "runtime/base/status.h"

namespace rueda::core::launcher {

/// Returns the whole text of a file that the user named, without a byte order mark. `what` says what the file is for,
/// as in "hostfile". Returns kInvalidArgument if it cannot be read: "hostfile x cannot be read: Is a directory".
Result<std::string> read_text_file(const std::string& what, const std::string& path);

}  // namespace rueda::core::launcher
