// Finished operations that wait for rueda_drain, and the eventfd that is readable while there are any. The descriptor
// is made with the first call of fd(), so that a session without an event loop has none; it is written once when the
// queue becomes non-empty and read once when it becomes empty.
#include "bindings/c/completion_queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "bindings/c/handle_table.h"
#include "runtime/base/shortage.h"

namespace rueda::core {

Result<int> CompletionQueue::fd() {
  MutexLock lock(mutex_);
  if (!fd_.valid()) {
    fd_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!fd_.valid()) {
      return Status(Code::kSystem, std::string("no descriptor for completions: ") + reason_of(errno));
    }
    signal();
  }
  return fd_.get();
}

/// Asking the table under the lock orders this with a release, which leaves the table first and comes here then.
void CompletionQueue::add(const rueda_completion& completion) {
  MutexLock lock(mutex_);
  if (closed_ || handles().find(completion.handle) == nullptr) return;
  places_[completion.handle] = queue_.insert(queue_.end(), completion);
  signal();
}

void CompletionQueue::withdraw(rueda_handle handle) {
  MutexLock lock(mutex_);
  const auto found = places_.find(handle);
  if (found == places_.end()) return;
  queue_.erase(found->second);
  places_.erase(found);
  signal();
}

size_t CompletionQueue::drain(rueda_completion* out, size_t capacity) {
  MutexLock lock(mutex_);
  size_t count = 0;
  for (; count < capacity && !queue_.empty(); ++count) {
    out[count] = queue_.front();
    places_.erase(queue_.front().handle);
    queue_.pop_front();
  }
  signal();
  return count;
}

void CompletionQueue::close() {
  MutexLock lock(mutex_);
  closed_ = true;
  queue_.clear();
  places_.clear();
  fd_ = UniqueFd();
}

/// Makes the descriptor say whether there is something, with a system call only where that has changed.
void CompletionQueue::signal() {
  if (!fd_.valid() || signalled_ == !queue_.empty()) return;
  signalled_ = !queue_.empty();
  uint64_t counter = 1;
  if (signalled_) {
    static_cast<void>(!::write(fd_.get(), &counter, sizeof counter));
  } else {
    static_cast<void>(!::read(fd_.get(), &counter, sizeof counter));
  }
}

}  // namespace rueda::core
