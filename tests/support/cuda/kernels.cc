// The plug-in's kernels as the stand-in runs them: block by block, thread by thread. Addresses of a device's memory are
// turned into the host's first, in a copy of the table, so the source needs to know nothing of the stand-in.
#include "tests/support/cuda/kernels.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "tests/support/cuda/state.h"

// What the compiler for GPUs knows by itself.
// NOLINTBEGIN(clang-diagnostic-reserved-macro-identifier)
#define __device__
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
// NOLINTEND(clang-diagnostic-reserved-macro-identifier)
namespace {
struct Index {
  unsigned x = 0;
};
thread_local Index threadIdx;
thread_local Index blockIdx;
thread_local Index blockDim;
thread_local Index gridDim;
}  // namespace
#include "ops/cuda/all_kernels.cu"

namespace rueda::test {
namespace {

using cuda::FoldParameters;
using cuda::PackParameters;
using cuda::PackPiece;
using cuda::PackTask;

using Kernel = void (*)(PackParameters parameters);
constexpr std::array<Kernel, cuda::kPackKernels> kKernels = {rueda_pack_bits, rueda_pack_floats, rueda_pack_integers};

/// A kernel works with any number of threads. Each of them looks for its tile, which takes its time for short ones.
constexpr unsigned kMostThreads = 64;

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

std::string why_not_packed(const KernelLaunch& launch, const PackTask& task) {
  if (launch.threads > cuda::kPackThreads || task.lanes == 0 || launch.threads % task.lanes != 0)
    return "the grid is wrong";
  if (task.table == nullptr && task.pieces > cuda::kHeldPieces) return "the parameters hold fewer pieces";
  if (!on_device_or_null(task.table) || !on_device_or_null(task.buffer)) return "the buffer lies in the host's memory";
  if (task.buffer == nullptr && task.way == cuda::PackWay::kGather) return "there is nothing to gather to";
  return "";
}

bool is_cut_well(int64_t number) { return number >= 0 && number % cuda::kFoldBytes == 0; }

std::string why_not_folded(const KernelLaunch& launch, const FoldParameters& fold) {
  if (launch.threads > cuda::kFoldThreads) return "the grid is wrong";
  if (fold.members == 0 || fold.members > cuda::kMostFolded || fold.own >= fold.members) return "nobody takes part";
  if (!is_on_device(reinterpret_cast<CUdeviceptr>(fold.others))) return "the slices lie in the host's memory";
  if (!is_on_device(reinterpret_cast<CUdeviceptr>(fold.slice))) return "the slice lies in the host's memory";
  const bool is_aligned = reinterpret_cast<uintptr_t>(fold.others) % cuda::kFoldBytes == 0 &&
                          reinterpret_cast<uintptr_t>(fold.slice) % cuda::kFoldBytes == 0;
  if (!is_aligned || !is_cut_well(fold.bytes) || !is_cut_well(fold.stride)) return "a slice begins or ends in a run";
  return cuda::begins_group(fold, 0) ? "" : "no group begins with the first member";
}

/// Block by block, thread by thread.
template <typename Parameters>
void run_all(const KernelLaunch& launch, void (*kernel)(Parameters), const Parameters& parameters) {
  blockDim.x = std::min(launch.threads, kMostThreads);
  gridDim.x = launch.blocks;
  for (blockIdx.x = 0; blockIdx.x < launch.blocks; ++blockIdx.x) {
    for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x) kernel(parameters);
  }
}

std::string run_pack(const KernelLaunch& launch, const PackParameters& given) {
  PackParameters parameters = given;
  PackTask& task = parameters.task;
  const PackPiece* const first = pieces_of(given);
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
    run_all(launch, kKernels[number], parameters);
    return "";
  }
  return "there is no such kernel";
}

std::string run_fold(const KernelLaunch& launch, const FoldParameters& given) {
  FoldParameters parameters = given;
  parameters.others = host_address(given.others);
  parameters.slice = host_address(given.slice);
  run_all<FoldParameters>(launch, rueda_fold, parameters);
  return "";
}

}  // namespace

KernelLaunch launch_of(std::string name, unsigned blocks, unsigned threads, const void* parameters) {
  KernelLaunch launch{std::move(name), blocks, threads, {}};
  if (launch.name == cuda::kFoldKernelName)
    launch.parameters = *static_cast<const FoldParameters*>(parameters);
  else
    launch.parameters = *static_cast<const PackParameters*>(parameters);
  return launch;
}

std::string why_not_launched(const KernelLaunch& launch) {
  if (launch.blocks == 0 || launch.threads == 0) return "the grid is wrong";
  if (const auto* const fold = std::get_if<FoldParameters>(&launch.parameters)) return why_not_folded(launch, *fold);
  return why_not_packed(launch, std::get<PackParameters>(launch.parameters).task);
}

std::string run_kernel(const KernelLaunch& launch) {
  if (const auto* const fold = std::get_if<FoldParameters>(&launch.parameters)) return run_fold(launch, *fold);
  return run_pack(launch, std::get<PackParameters>(launch.parameters));
}

}  // namespace rueda::test
