#pragma once
#include <string>
#include <variant>

#include "ops/cuda/fold_task.h"
#include "ops/cuda/pack_tiles.h"

namespace rueda::test {

/// A launch of one of the plug-in's kernels, which run on the host from the same source.
struct KernelLaunch {
  std::string name;
  unsigned blocks;
  unsigned threads;
  std::variant<cuda::PackParameters, cuda::FoldParameters> parameters;  ///< addresses as programs know them
};

/// Copies the parameters of a launch, whose type its kernel's name tells.
KernelLaunch launch_of(std::string name, unsigned blocks, unsigned threads, const void* parameters);

/// Returns what is wrong with a launch that can be seen when it is made; empty if nothing is.
std::string why_not_launched(const KernelLaunch& launch);
/// Runs it to its end. Returns what was wrong with the pieces in a table; empty if nothing was. Pieces are looked at
/// now, as a GPU does: a table that was changed since the launch shows.
std::string run_kernel(const KernelLaunch& launch);

}  // namespace rueda::test
