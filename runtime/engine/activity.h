#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "runtime/base/mutex.h"
#include "runtime/engine/task_thread.h"

namespace rueda::core {

/// Asks the program what it is doing. The user's function runs on a thread of its own: it may need a lock that a stuck
/// thread holds (such as Python's), and then it must not keep others waiting. The engine owns it. Any thread, until
/// `stop`.
class Activity {
 public:
  /// How long `ask` waits for an answer.
  static constexpr std::chrono::milliseconds kPatience{1000};
  /// Writes at most `capacity` bytes, NUL included.
  using Source = std::function<void(char* text, size_t capacity)>;

  /// An empty source clears it: the program is not asked any more.
  void set(Source source) RUEDA_EXCLUDES(mutex_);
  /// Blocks for `kPatience` at most. Returns what the program says, a sentence that it does not answer, or an empty
  /// text if there is no source. A caller that comes while the program is being asked gets the same answer.
  std::string ask() RUEDA_EXCLUDES(mutex_);
  /// Waits for a call that is under way, without a limit; the program is not asked any more. The engine's owner.
  void stop();

 private:
  struct Call {
    std::string text;
    bool over = false;
  };
  void call(const Source& source, const std::shared_ptr<Call>& answer) RUEDA_EXCLUDES(mutex_);

  Mutex mutex_;
  Condition answered_;
  std::shared_ptr<const Source> source_ RUEDA_GUARDED_BY(mutex_);
  std::shared_ptr<Call> running_ RUEDA_GUARDED_BY(mutex_);
  bool stopped_ RUEDA_GUARDED_BY(mutex_) = false;
  TaskThread task_thread_;
};

}  // namespace rueda::core
