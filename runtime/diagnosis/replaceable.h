#pragma once
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace rueda::core {

/// Returns the path to rename a new file to, so that it replaces the one at `path`: symbolic links are followed, as by
/// a program that writes there. Returns kSystem if `path` is a device, a pipe or a folder, which a rename would take
/// away. `what` names the file in the sentence: "timeline".
Result<std::string> replaceable(const std::string& what, const std::string& path);

/// Writes `text` beside `path` and renames it there, so that a reader sees the old file or the new one. Returns kSystem
/// as `replaceable`, or if it cannot be written.
Status replace_file(const std::string& what, const std::string& path, std::string_view text);

}  // namespace rueda::core
