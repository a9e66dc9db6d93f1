// Asks the program what it is doing, on a thread of its own.
//
// One question is under way at a time. A caller that comes meanwhile shares its answer: the program would say the same
// again, and a stuck program would otherwise collect a queue of calls. A call that does not come back in time is left
// to its thread, so the answer goes to an object that the call and its waiters share.
#include "runtime/engine/activity.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "runtime/base/deadline.h"

namespace rueda::core {

/// A call that is under way keeps the source it was made with.
void Activity::set(Source source) {
  auto shared = source ? std::make_shared<const Source>(std::move(source)) : nullptr;
  MutexLock lock(mutex_);
  source_ = std::move(shared);
}

std::string Activity::ask() {
  const Deadline deadline = Deadline::after(kPatience);  // each caller's own: one that joins late waits as long
  MutexLock lock(mutex_);
  if (source_ == nullptr || stopped_) return {};
  if (running_ == nullptr || running_->over) {
    running_ = std::make_shared<Call>();
    const Status posted = task_thread_.post([this, source = source_, answer = running_] { call(*source, answer); });
    if (!posted.ok()) running_.reset();
    if (!posted.ok()) return "nothing: " + posted.sentence();
  }
  const std::shared_ptr<Call> mine = running_;
  while (!mine->over && !deadline.passed()) answered_.wait_for(mutex_, deadline.left(kPatience));
  return mine->over
             ? mine->text
             : "nothing: it did not answer within 1 s; a thread may hold a lock that it needs (in Python, the GIL)";
}

void Activity::call(const Source& source, const std::shared_ptr<Call>& answer) {
  std::array<char, 1024> text{};
  try {
    source(text.data(), text.size() - 1);
  } catch (...) {  // a caller in C++ may throw; this thread is ours, so nothing would catch it
    constexpr std::string_view kThrew = "nothing: the activity function threw an exception";
    std::copy(kThrew.begin(), kThrew.end(), text.begin());
    text[kThrew.size()] = 0;
  }
  MutexLock lock(mutex_);
  answer->text = text.data();
  answer->over = true;
  answered_.notify_all();
}

/// Without the mutex while it waits: the call that is under way takes it at its end.
void Activity::stop() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
  }
  task_thread_.stop();
}

}  // namespace rueda::core
