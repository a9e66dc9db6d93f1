// The heart's thread sleeps, counts up, sleeps. It must depend on nothing that may block, so it logs nothing while it
// beats and takes only its own mutex, which no other thread holds for longer than a moment. It stays on no core: if the
// chosen cores are taken by threads of a higher priority, a confined heart would stand still in a process that runs.
#include "runtime/engine/heart.h"

#include <algorithm>

#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include "runtime/engine/core_claim.h"

namespace rueda::core {
namespace {

/// Two wake-ups a second cost an idle process nothing that can be measured.
constexpr std::chrono::nanoseconds kSlowest = std::chrono::milliseconds(500);
constexpr std::chrono::nanoseconds kFastest = std::chrono::milliseconds(20);

}  // namespace

Heart::Heart(std::atomic<uint64_t>& beats, std::chrono::nanoseconds limit)
    : beats_(beats), period_(std::clamp(limit / 10, kFastest, kSlowest)) {}

void Heart::start(const std::string& name, int rank) {
  beats_.fetch_add(1);
  const Status started = start_thread(thread_, "for signs of life", [this, name] {
    place_thread(name, {});
    beat();
  });
  if (started.ok()) return;
  beats_.store(kAtRest);
  log(LogLevel::kWarning, "rank {}: other ranks may not notice if this process is frozen: {}", rank,
      started.sentence());
}

void Heart::beat() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    stopped_.wait_for(mutex_, period_);
    beats_.fetch_add(1);
  }
}

void Heart::stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    stopped_.notify_all();
  }
  if (!thread_.joinable()) return;
  thread_.join();
  beats_.store(kAtRest);
}

}  // namespace rueda::core
