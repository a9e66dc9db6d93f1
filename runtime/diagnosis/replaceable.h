#pragma once
#include <string>

#include "runtime/base/status.h"

namespace rueda::core {

/// Returns the path to rename a new file to, so that it replaces the one at `path`: symbolic links are followed, as by
/// a program that writes there. Returns kSystem if `path` is a device, a pipe or a folder, which a rename would take
/// away. `what` names the file in the sentence: "timeline".
Result<std::string> replaceable(const std::string& what, const std::string& path);

}  // namespace rueda::core
