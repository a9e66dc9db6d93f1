// From the members' times to the time of a batch.
//
//   show ─▶ this rank's words in shared memory       await ─▶ waiting
//   take ─▶ look at the words of all members: complete, missing, or lost
//           └─▶ complete: last end - max(first verdict, last end before)
//
// A slot's number is 0 while its times change. A reader that finds the number before and after the times has read one
// trial's: each store of a time is a release and each load an acquire, so one that has read a later time finds the 0,
// or a later number.
#include "runtime/engine/trial_times.h"

#include <sys/stat.h>

#include <algorithm>
#include <optional>

namespace rueda::core {
namespace {

using std::chrono::duration_cast;
using std::chrono::nanoseconds;

int64_t count(SteadyClock::time_point at) { return duration_cast<nanoseconds>(at.time_since_epoch()).count(); }

/// Returns a number that is the same for processes that read the same steady clock: those of one time namespace. A
/// kernel without such namespaces has one clock.
uint64_t clock_of_process() {
  struct stat about {};
  return stat("/proc/self/ns/time", &about) == 0 ? about.st_ino : 1;
}

struct Times {
  int64_t agreed, before, ended;
};

/// Returns nothing if the slot holds another trial, or changes meanwhile.
std::optional<Times> read(const TrialWords& slot, uint64_t trial) {
  if (slot.trial.load(std::memory_order_acquire) != trial) return std::nullopt;
  const Times times{slot.agreed.load(std::memory_order_acquire), slot.before.load(std::memory_order_acquire),
                    slot.ended.load(std::memory_order_acquire)};
  if (slot.trial.load(std::memory_order_relaxed) != trial) return std::nullopt;
  return times;
}

}  // namespace

TrialTimes::TrialTimes(int rank, std::vector<ControlWords*> words)
    : rank_(static_cast<size_t>(rank)), words_(std::move(words)) {
  words_[rank_]->clock.store(clock_of_process());
}

/// An older trial that ends late does not push out a later one.
void TrialTimes::show(uint64_t trial, const TrialSpan& span) {
  const MutexLock lock(mutex_);
  TrialWords& slot = words_[rank_]->trials[trial % kTrialsShown];
  if (slot.trial.load(std::memory_order_relaxed) >= trial) return;
  slot.trial.store(0, std::memory_order_relaxed);
  slot.agreed.store(count(span.agreed), std::memory_order_release);
  slot.before.store(count(span.before), std::memory_order_release);
  slot.ended.store(span.known ? count(span.ended) : 0, std::memory_order_release);
  slot.trial.store(trial, std::memory_order_release);
}

void TrialTimes::await(SetId set, const TrialTime& time, const std::vector<int>& members) {
  Waiting waiting{set, time, {}};
  const uint64_t clock = words_[rank_]->clock.load(std::memory_order_relaxed);
  for (const int member : members) {
    const ControlWords* const words = words_[static_cast<size_t>(member)];
    if (words != nullptr && words->clock.load() == clock) waiting.members.push_back(words);
  }
  const MutexLock lock(mutex_);
  if (waiting_.size() == kTrialsShown) waiting_.pop_front();
  waiting_.push_back(std::move(waiting));
  waits_.store(true);
}

std::vector<TrialTimes::Time> TrialTimes::take() {
  const MutexLock lock(mutex_);
  std::vector<Time> complete;
  std::erase_if(waiting_, [&complete](const Waiting& waiting) {
    TrialTime time = waiting.time;
    const Found found = look(waiting, time.took);
    if (found == Found::kComplete) complete.emplace_back(waiting.set, time);
    return found != Found::kMissing;
  });
  waits_.store(!waiting_.empty());
  return complete;
}

TrialTimes::Found TrialTimes::look(const Waiting& waiting, nanoseconds& took) {
  const uint64_t trial = waiting.time.trial;
  std::optional<Times> all;
  for (const ControlWords* const words : waiting.members) {
    const TrialWords& slot = words->trials[trial % kTrialsShown];
    const std::optional<Times> times = read(slot, trial);
    if (!times) return slot.trial.load(std::memory_order_relaxed) > trial ? Found::kLost : Found::kMissing;
    if (times->ended == 0) return Found::kLost;
    if (!all) all = times;
    all->agreed = std::min(all->agreed, times->agreed);
    all->before = std::max(all->before, times->before);
    all->ended = std::max(all->ended, times->ended);
  }
  if (!all) return Found::kLost;
  took = nanoseconds(all->ended - std::max(all->agreed, all->before));
  return Found::kComplete;
}

}  // namespace rueda::core
