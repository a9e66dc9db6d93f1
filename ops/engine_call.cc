// How the members of a batch on devices agree before a library of the device's own takes over.
//
// What they tell each other is an all-reduce of bytes by `or`, in which each member has filled in its own part. It runs
// over the mesh of the device lane, with the first of the batch's stamps, so it needs no verdict and no thread.
#include "ops/engine_call.h"

#include <algorithm>
#include <chrono>
#include <string_view>

namespace rueda::core {
namespace {

constexpr std::chrono::microseconds kEngineLook{200};

/// The members of a set on one host have the same slots, and on several hosts no algorithm for the host uses them.
BatchShape told_shape(const Team& team, uint64_t bytes, uint64_t slot_bytes) {
  BatchShape shape;
  shape.dtype = Dtype::kU8;
  shape.op = ReduceOp::kBor;
  shape.bytes = bytes;
  shape.ranks = team.size();
  shape.one_host = team.one_host;
  shape.slot_bytes = slot_bytes;
  return shape;
}

const Algorithm& allreduce_named(std::span<const Algorithm> table, std::string_view name) {
  return *std::ranges::find_if(
      table, [name](const Algorithm& each) { return each.kind == OpKind::kAllreduce && each.name == name; });
}

}  // namespace

/// One for each `kTold` bytes, which no chunk is shorter than, and two to spare for each time. In an all-reduce members
/// may tell each other twice: what they have, and whether what they tried has worked.
uint64_t HostEngineCall::told_stamps(OpKind kind, int members, uint64_t tensors) {
  if (members == 1) return 0;
  const uint64_t once = static_cast<uint64_t>(members) + 2;
  if (!exchanges(kind)) return kind == OpKind::kAllreduce ? 2 * once : once;
  const size_t most = EngineCall::told_of_counts(static_cast<size_t>(members) * tensors);
  return once + static_cast<uint64_t>(members) * (most / EngineCall::kTold) + 2;
}

Status HostEngineCall::tell_all(std::span<std::byte> all) {
  const Team& team = *call_.team;
  if (team.size() == 1) return {};
  const Algorithm& algorithm = allreduce_named(table_, team.one_host ? "shm_two_shot" : "direct");
  const Slice slice{all.data(), all.data(), static_cast<int64_t>(all.size())};
  Call told;
  told.dtype = Dtype::kU8;
  told.op = ReduceOp::kBor;
  told.slices = std::span<const Slice>(&slice, 1);
  told.count = slice.count;
  told.choice = algorithm.plan(told_shape(team, all.size(), mesh_.layout().slot_bytes));
  told.stamp = call_.stamp + used_;
  used_ += told.choice.stamps;
  told.team = &team;
  return algorithm.run(told, mesh_, deadline_);
}

/// Over channels only, which count bytes and need no stamps.
Status HostEngineCall::sum_between_hosts(std::byte* memory, int64_t count, std::span<const int> ranks) {
  if (count == 0 || ranks.size() == 1) return {};
  Team team;
  team.ranks.assign(ranks.begin(), ranks.end());
  team.index = static_cast<int>(std::ranges::find(ranks, mesh_.rank()) - ranks.begin());
  team.groups.assign(ranks.size(), 1);
  team.one_host = false;
  team.hosts = team.groups;
  const Algorithm& ring = allreduce_named(table_, "ring");
  const Slice slice{memory, memory, count};
  Call sum;
  sum.dtype = call_.dtype;
  sum.op = call_.op == ReduceOp::kAverage ? ReduceOp::kSum : call_.op;
  sum.slices = std::span<const Slice>(&slice, 1);
  sum.count = count;
  BatchShape shape;
  shape.dtype = sum.dtype;
  shape.op = sum.op;
  shape.bytes = static_cast<uint64_t>(count) * size_of(sum.dtype);
  shape.ranks = team.size();
  shape.one_host = false;
  shape.hosts = team.size();
  sum.choice = ring.plan(shape);
  sum.stamp = call_.stamp;
  sum.team = &team;
  return ring.run(sum, mesh_, deadline_);
}

Status HostEngineCall::until(const std::function<bool()>& ready) {
  for (;;) {
    Status waited = mesh_.until(ready, deadline_.earlier(Deadline::after(kEngineLook)));
    if (waited.code() != Code::kTimeout || deadline_.passed()) return waited;
  }
}

}  // namespace rueda::core
