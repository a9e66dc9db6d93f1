// The heart's thread sleeps, counts up, sleeps. It must depend on nothing that may block, so it logs nothing while it
// beats and takes only its own mutex, which no other thread holds for longer than a moment. It stays on no core: if the
// chosen cores are taken by threads of a higher priority, a confined heart would stand still in a process that runs.
#include "runtime/engine/heart.h"

#include <algorithm>
#include <system_error>

#include "runtime/base/log.h"
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
  try {
    thread_ = std::thread([this, name] {
      place_thread(name, {});
      beat();
    });
  } catch (const std::system_error& error) {
    beats_.store(kAtRest);
    log(LogLevel::kWarning,
        "rank {}: no thread for signs of life ({}; see ulimit -u and ulimit -v): other ranks may not notice if this "
        "process is frozen",
        rank, error.what());
  }
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
