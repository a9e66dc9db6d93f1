#pragma once
#include <string>

#include "runtime/base/status.h"

namespace rueda::core {

/// Where a file that is to be written anew and renamed to `path` goes: symbolic links lead on, as for a program that
/// writes there. kSystem: what is there is no regular file, so a rename would take a device, a pipe or a folder away.
/// `what`: "timeline", for the sentence.
Result<std::string> replaceable(const std::string& what, const std::string& path);

}  // namespace rueda::core
