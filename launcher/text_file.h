#pragma once
#include <string>

#include "runtime/base/status.h"

namespace rueda::core::launcher {

/// Returns the whole text of a file that the user named, without a byte order mark. `what` says what the file is for,
/// as in "hostfile". Never blocks. Returns kInvalidArgument if it cannot be read, is not a regular file or has
/// more than 16 MiB: "hostfile x cannot be read: Is a directory".
Result<std::string> read_text_file(const std::string& what, const std::string& path);

}  // namespace rueda::core::launcher
