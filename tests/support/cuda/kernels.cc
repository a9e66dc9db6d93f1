// The plug-in's kernels as the stand-in runs them: block by block, thread by thread. Addresses of a device's memory are
// turned into the host's first, in a copy of the table, so the source needs to know nothing of the stand-in.
#include "tests/support/cuda/kernels.h"

#include <algorithm>
#include <array>
#include <vector>

#include "tests/support/cuda/state.h"

// What the compiler for GPUs knows by itself.
// NOLINTBEGIN(bugprone-reserved-identifier)
#define __device__
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
// NOLINTEND(bugprone-reserved-identifier)
namespace {
struct Index {
  unsigned x = 0;
};
thread_local Index threadIdx;
thread_local Index blockIdx;
thread_local Index blockDim;
thread_local Index gridDim;
}  // namespace
#include "ops/cuda/pack.cu"

namespace rueda::test {
namespace {

using cuda::PackParameters;
using cuda::PackPiece;
using cuda::PackTask;

using Kernel = void (*)(PackParameters parameters);
constexpr std::array<Kernel, cuda::kPackKernels> kKernels = {rueda_pack_bits, rueda_pack_floats, rueda_pack_integers};

/// A kernel works with any number of threads. Each of them looks for its tile, which takes its time for short ones.
constexpr unsigned kMostThreads = 48;

template <typename T>
bool on_device_or_null(T* memory) {
  return memory == nullptr || is_on_device(reinterpret_cast<CUdeviceptr>(memory));
}

template <typename T>
T* host_address(T* memory) {
  return static_cast<T*>(on_host(reinterpret_cast<CUdeviceptr>(memory)));
}

/// The table at an address that the host can follow.
const PackPiece* pieces_of(const PackParameters& parameters) {
  return parameters.task.table == nullptr ? parameters.held : host_address(parameters.task.table);
}

std::string why_not_run(const PackTask& task, const std::vector<PackPiece>& pieces) {
  uint32_t tiles = 0;
  for (const PackPiece& piece : pieces) {
    if (!on_device_or_null(piece.in) || !on_device_or_null(piece.out)) return "a piece lies in the host's memory";
    if (piece.first_tile != tiles) return "a piece does not begin at the tile after the last piece's";
    if (piece.count < 0 || piece.at < 0 || piece.at % cuda::kPackAlignment != 0) return "a piece lies nowhere";
    tiles += cuda::tiles_of(piece.count);
  }
  return tiles == task.tiles ? "" : "the pieces have another number of tiles than the launch";
}

}  // namespace

std::string why_not_launched(const KernelLaunch& launch) {
  const PackTask& task = launch.parameters.task;
  if (launch.blocks == 0 || launch.threads == 0 || launch.threads > cuda::kPackThreads) return "the grid is wrong";
  if (task.table == nullptr && task.pieces > cuda::kHeldPieces) return "the parameters hold fewer pieces";
  if (!on_device_or_null(task.table) || !on_device_or_null(task.buffer)) return "the buffer lies in the host's memory";
  if (task.buffer == nullptr && task.way == cuda::PackWay::kGather) return "there is nothing to gather to";
  return "";
}

std::string run_kernel(const KernelLaunch& launch) {
  PackParameters parameters = launch.parameters;
  PackTask& task = parameters.task;
  const PackPiece* const first = pieces_of(launch.parameters);
  std::vector<PackPiece> pieces(first, first + task.pieces);
  if (std::string why = why_not_run(task, pieces); !why.empty()) return why;
  for (PackPiece& piece : pieces) {
    piece.in = host_address(piece.in);
    piece.out = host_address(piece.out);
  }
  task.table = pieces.data();
  task.buffer = host_address(task.buffer);
  for (size_t number = 0; number < cuda::kPackKernels; ++number) {
    if (launch.name != cuda::kPackKernelNames[number]) continue;
    blockDim.x = std::min(launch.threads, kMostThreads);
    gridDim.x = launch.blocks;
    for (blockIdx.x = 0; blockIdx.x < launch.blocks; ++blockIdx.x) {
      for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x) kKernels[number](parameters);
    }
    return "";
  }
  return "there is no such kernel";
}

}  // namespace rueda::test
