#pragma once
#include <string>

namespace rueda::cuda {

/// Returns a line about NCCL, which nothing uses yet: its version and path, or why there is none and the command that
/// brings it. Looks at `named` (RUEDA_NCCL_LIBRARY) if that is not empty, else at one that the process has loaded, else
/// for what the dynamic linker finds. A library that is found stays open.
std::string describe_nccl(const std::string& named);

}  // namespace rueda::cuda
