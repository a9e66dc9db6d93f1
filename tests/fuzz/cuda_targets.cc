// What the CUDA plug-in reads of other ranks: what the members of a set tell each other before they use NCCL.
#include "ops/cuda/nccl_told.h"
#include "tests/fuzz/targets.h"

namespace rueda::fuzz {
namespace {

/// As many members as there are whole records. They come to one decision, with a reason that names ranks.
void fuzz_told(Bytes bytes) {
  const auto members = cuda::read_told(bytes);
  hold(members.size() == bytes.size() / core::EngineCall::kTold);
  if (members.empty()) return;
  std::vector<int> ranks;
  for (size_t i = 0; i < members.size(); ++i) ranks.push_back(static_cast<int>(2 * i));
  const std::string why = cuda::why_not_together(members, ranks);
  hold(why.empty() || why.starts_with("rank"));
  bool all_have_it = true;
  for (const cuda::Told& one : members) all_have_it &= one.has == cuda::Told::Has::kNccl;
  hold(all_have_it || !why.empty());
  const auto processes = cuda::processes_of(members, ranks);
  hold(processes.size() == members.size() && processes.back().rank == ranks.back());
}

constexpr Target kCudaTargets[] = {{"told", fuzz_told}};

}  // namespace

std::span<const Target> cuda_targets() { return kCudaTargets; }

}  // namespace rueda::fuzz
