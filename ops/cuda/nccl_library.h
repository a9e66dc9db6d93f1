#pragma once
#include <string>

namespace rueda::cuda {

/// The NCCL that this process would use.
struct NcclLibrary {
  int version = 0;   ///< 22803; 0 if there is none
  std::string text;  ///< `NCCL 2.28.3 (/path)`, or that there is none and the command that brings it
};

/// Looks for NCCL: the library at `named` (RUEDA_NCCL_LIBRARY) if that is not empty, else one that the process has
/// loaded, else what the dynamic linker finds. A library that is found stays open.
NcclLibrary find_nccl(const std::string& named);

}  // namespace rueda::cuda
