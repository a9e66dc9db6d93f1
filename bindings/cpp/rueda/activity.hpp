#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "rueda/error.hpp"

namespace rueda {

/// Tells what the program is doing, such as "train.cc:31 in load_batch", for dumps and stall reports of any rank. Text
/// beyond 1,023 bytes is cut. Called on a library thread, one call at a time, while other threads of the program may be
/// stuck: it must not take a lock that they could hold, and must not call the library. The library waits 1 s at most
/// for it. If it throws, the report says so instead.
using ActivityCallback = std::function<std::string()>;

namespace detail {

/// The activity callback of one session, at one address for as long as the library may call it. Any thread.
class Activity {
 public:
  /// Throws NotInitialized if `session` is null; `self` may then be null as well.
  static void set(Activity* self, rueda_session* session, ActivityCallback callback) {
    auto next = callback ? std::make_shared<const ActivityCallback>(std::move(callback)) : nullptr;
    check(rueda_set_activity_callback(session, next != nullptr ? &Activity::tell : nullptr, self));
    const std::lock_guard lock(self->mutex_);
    self->callback_.swap(next);
  }

 private:
  static void tell(void* self, char* text, size_t capacity) {
    std::string said;
    try {
      said = static_cast<Activity*>(self)->ask();
    } catch (const std::exception& thrown) {
      said = std::string("nothing: the function that tells threw: ") + thrown.what();
    } catch (...) {
      said = "nothing: the function that tells threw";
    }
    if (capacity == 0) return;
    const size_t length = std::min(said.size(), capacity - 1);
    std::memcpy(text, said.data(), length);
    text[length] = '\0';
  }
  /// Keeps the function alive while it runs, because another thread may replace it meanwhile.
  std::string ask() {
    std::shared_ptr<const ActivityCallback> callback;
    {
      const std::lock_guard lock(mutex_);
      callback = callback_;
    }
    return callback != nullptr ? (*callback)() : std::string();
  }

  std::mutex mutex_;
  std::shared_ptr<const ActivityCallback> callback_;  ///< guarded by mutex_
};

}  // namespace detail
}  // namespace rueda
