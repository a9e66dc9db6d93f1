// A forked child, such as a worker that loads data, has the parent's pointer but none of its threads. It would wait for
// ever, so it is told apart by its process id, which is also how the Python package does it.
#include "bindings/tensorflow/session_in_use.h"

#include <unistd.h>

#include <atomic>
#include <mutex>

namespace rueda::tensorflow {
namespace {

std::atomic<rueda_session*> current{nullptr};
std::atomic<pid_t> owner{0};

std::mutex reason_mutex;
std::string reason = "Rueda is not initialised: call init() first";  // that there is no session

}  // namespace

void refuse_sessions(const char* why) {
  {
    const std::lock_guard<std::mutex> lock(reason_mutex);
    reason = why;
  }
  current.store(nullptr, std::memory_order_release);
}

void use_session(rueda_session* session) {
  owner.store(getpid(), std::memory_order_relaxed);
  current.store(session, std::memory_order_release);
}

rueda_session* session_in_use(std::string& why) {
  rueda_session* const session = current.load(std::memory_order_acquire);
  if (session == nullptr) {
    const std::lock_guard<std::mutex> lock(reason_mutex);
    why = reason;
    return nullptr;
  }
  const pid_t rank = owner.load(std::memory_order_relaxed);
  if (rank != getpid()) {
    why = "process " + std::to_string(getpid()) + " was forked from process " + std::to_string(rank) +
          " after init() and is not a rank: operations do not work in it";
    return nullptr;
  }
  return session;
}

}  // namespace rueda::tensorflow
