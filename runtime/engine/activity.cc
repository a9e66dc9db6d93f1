#include "runtime/engine/activity.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "runtime/base/deadline.h"

namespace rueda::core {

void Activity::set(Source source) {
  auto shared = source ? std::make_shared<const Source>(std::move(source)) : nullptr;
  MutexLock lock(mutex_);
  source_ = std::move(shared);
}

std::string Activity::ask() {
  const Deadline deadline = Deadline::after(kPatience);
  MutexLock lock(mutex_);
  if (source_ == nullptr || stopped_) return {};
  if (running_ == nullptr || running_->over) {
    running_ = std::make_shared<Call>();
    worker_.post([this, source = source_, place = running_] { call(*source, place); });
  }
  const std::shared_ptr<Call> mine = running_;
  while (!mine->over && !deadline.passed()) answered_.wait_for(mutex_, deadline.left(kPatience));
  return mine->over
             ? mine->text
             : "nothing: it did not answer within 1 s; a thread may hold a lock that it needs (in Python, the GIL)";
}

void Activity::call(const Source& source, const std::shared_ptr<Call>& place) {
  std::array<char, 1024> text{};
  try {
    source(text.data(), text.size() - 1);
  } catch (...) {  // of a caller in C++, on a thread of ours
    constexpr std::string_view kThrew = "nothing: the activity function threw an exception";
    std::copy(kThrew.begin(), kThrew.end(), text.begin());
    text[kThrew.size()] = 0;
  }
  MutexLock lock(mutex_);
  place->text = text.data();
  place->over = true;
  answered_.notify_all();
}

void Activity::stop() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
  }
  worker_.stop();
}

}  // namespace rueda::core
