// How an epoch ends for this engine: by goodbyes, in order, or by the first reason that any thread finds. `epoch_over`
// raises the abort, which settles the reason, before it wakes anything: a thread that wakes must find the reason there.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "runtime/base/log.h"
#include "runtime/base/rank_ranges.h"
#include "runtime/base/shortage.h"
#include "runtime/engine/engine.h"
#include "runtime/net/transport.h"
#include "runtime/rendezvous/control_tree.h"

namespace rueda::core {
namespace {

/// How long a lane with a broken stream waits for a reason before it reports what it saw itself. It waits longer than
/// any grace: the coordinator shall have judged the evidence by then, and only does not if it has no core.
constexpr std::chrono::milliseconds kEvidenceLimit = Faults::kLongestGrace + std::chrono::milliseconds(500);
/// The same for a device's library that says that a peer may be lost, and not which.
constexpr std::chrono::milliseconds kLibraryLimit = 2 * kEvidenceLimit;

}  // namespace

/// Another rank's goodbye ends only what needs that rank. Rank 0's, or this rank's own, ends agreement on this rank.
void Engine::rank_left(int rank) {
  faults_.left(rank);
  timeline_.left(rank);
  if (rank != plan_.rank && rank != 0) return;
  left_.store(true);
  // In the tree a leader that goes says goodbye for the ranks below it. They did not ask for it, so the sentence tells
  // why they are cut off.
  const int upstream = control_upstream(plan_);
  const bool dismissed = rank != 0 && !ended_.load();
  inbox_.close(Status(Code::kShutDown,
                      fmt::format("{} has shut down{}", plan_.name_of(dismissed ? upstream : rank),
                                  dismissed ? ", and this rank reached the others through it" : ""),
                      dismissed ? upstream : rank));
  notify_progress();
}

/// As a shutdown begins, but on the coordinator's thread, which may not wait. It looks for `has_left` from now on.
void Engine::begin_to_leave(const Status& why) {
  inbox_.close(why);
  signals_.goodbye_wanted.store(true);
}

bool Engine::has_left() {
  if (!left_.load() || !turn_->needed_by_none() || !turn_->flushed() || !lanes_.idle()) return false;
  signals_.all_leave.store(true);
  return true;
}

void Engine::link_lost(int rank, const Status& how) {
  faults_.observe(rank, how.sentence());
  wake_coordinator();  // it judges the evidence once its grace has passed
}

/// Raises the abort and wakes whatever waits. Returns false if the epoch was over. A thread that shuts the engine down
/// comes through here before it frees anything, so what another thread wakes is still there. The memory may be out when
/// this is called, so the steps that need none come first. Whatever waits in a loop that was not woken looks at the
/// abort by itself within a second (`LoopWait`).
bool Engine::end_and_wake(const Status& why) {
  MutexLock lock(ending_mutex_);
  if (!abort_.raise(why)) return false;
  inbox_.close(why);
  // A lane's thread waits in its mesh or in its channels; both look at the abort when they are woken.
  lanes_.wake_all();
  const bool in_order = why.code() == Code::kShutDown || signals_.all_leave.load();
  if (!in_order || !lanes_.idle()) executor_->abort_devices();
  notify_progress();
  ring_coordinator();  // a turn fails what no lane holds, and tells the peers
  if (formation_.transport != nullptr) formation_.transport->wake_all();
  timeline_.abandon_others();
  return true;
}

void Engine::epoch_over(const Status& why) noexcept {
  try {
    if (!end_and_wake(why) || why.code() == Code::kShutDown) return;
    const auto waited = faults_.since_first();
    const std::string evidence = waited ? fmt::format("{:.1f} ms after the first evidence",
                                                      std::chrono::duration<double, std::milli>(*waited).count())
                                        : "before any evidence";
    log(LogLevel::kInfo, "{}: the epoch is over, {}: {}", plan_.own_name(), evidence, why.sentence());
  } catch (const std::exception& error) {
    log(LogLevel::kWarning, "{}: in the end of the epoch: {}", plan_.own_name(), failure_of(error).sentence());
  }
}

Status Engine::ran_too_long(const Batch& batch, const std::string& what) const {
  const int awaited = lanes_.awaited(batch.set, batch.device != nullptr ? LaneUse::kDevices : LaneUse::kHostMemory);
  const std::vector<int>& ranks = batch.team->team.ranks;
  const bool known = std::find(ranks.begin(), ranks.end(), awaited) != ranks.end();
  std::vector<int> others;
  std::remove_copy(ranks.begin(), ranks.end(), std::back_inserter(others), plan_.rank);
  std::sort(others.begin(), others.end());
  // A lane that fails leaves a mark, too, and then it was the lane that waited.
  const bool launched = batch.device != nullptr && batch.device->finished != nullptr && batch.failure.ok();
  std::string whom = "no other rank";
  if (launched) {
    whom = fmt::format("device {} number {}, on which it is launched and not finished", batch.device->functions->name,
                       batch.device->index);
  } else if (known) {
    whom = plan_.name_of(awaited);
  } else if (awaited == Mesh::kOthers) {
    whom = "some of " + rank_ranges(others, {{}, plan_.elastic.workers});
  }
  return {
      Code::kTimeout,
      fmt::format("{}: {} ran longer than {}; it waited for {}", plan_.own_name(), what, describe(batch.limit), whom),
      known && !launched ? awaited : plan_.rank};
}

/// A broken stream is a symptom: the peer may have died, or have ended its epoch because a third rank died. So the lane
/// waits for the judge's reason first, and reports its own only if none comes.
void Engine::fail_lane(const Batch& batch, const Status& result) {
  const std::string what =
      !batch.tensors.empty()
          ? describe(*batch.tensors.front()) + sets_.of_set(batch.team->number)
          : fmt::format("{}{} after this rank had joined", name_of(batch.call.kind), sets_.of_set(batch.team->number));
  if (result.code() == Code::kPeerLost && result.rank() >= 0) {
    faults_.observe(result.rank(), result.sentence());
    wake_coordinator();
    if (abort_.await(kEvidenceLimit)) return;
  }
  const bool by_library = result.code() == Code::kPeerLost && result.rank() < 0;
  if (by_library && abort_.await(kLibraryLimit)) return;
  if (result.code() == Code::kTimeout) {
    epoch_over(ran_too_long(batch, what));
    return;
  }
  const Code code = by_library ? Code::kSystem : result.code();
  epoch_over(Status(code, fmt::format("{}: {} failed: {}", plan_.own_name(), what, result.sentence()), result.rank()));
}

/// A peer that is slow or stopped may still write what this rank has given it to write, so before the caller hears of
/// the failure its tensors leave the memory that peers reach. Without memory for this the process ends, as if the
/// kernel refused.
void Engine::take_from_peers(const Batch& batch) noexcept {
  if (formation_.arena == nullptr || !batch.started) return;
  std::vector<std::span<std::byte>> written;
  for (const TensorPart* tensor : batch.tensors) {
    const Metadata& metadata = tensor->request.metadata;
    // Of other kinds, peers read inputs and write into memory of their own.
    if (metadata.kind != OpKind::kAllreduce || metadata.memory != MemoryKind::kShared) continue;
    const auto count = static_cast<size_t>(tensor->output_count());
    written.emplace_back(tensor->slice.out, count * size_of(metadata.dtype));
  }
  formation_.arena->revoke(written);
}

}  // namespace rueda::core
