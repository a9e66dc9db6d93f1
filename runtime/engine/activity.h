#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "runtime/base/mutex.h"
#include "runtime/engine/worker.h"

namespace rueda::core {

/// Asks the program what it is doing, on a thread of its own: a function of the user's that needs a lock which a stuck
/// thread holds (Python's, for one) keeps nobody waiting for longer than a moment. Any thread, until `stop`.
class Activity {
 public:
  /// How long an answer is waited for.
  static constexpr std::chrono::milliseconds kPatience{1000};
  /// Writes at most `capacity` bytes, NUL included.
  using Source = std::function<void(char* text, size_t capacity)>;

  /// Empty: nobody is asked.
  void set(Source source) RUEDA_EXCLUDES(mutex_);
  /// What the program says; that it says nothing, where it does not answer in time; empty: nobody is asked. Who comes
  /// while the program is being asked gets the same answer.
  std::string ask() RUEDA_EXCLUDES(mutex_);
  /// Waits for a call that is under way; after that nobody is asked. The engine's owner.
  void stop();

 private:
  struct Call {
    std::string text;
    bool over = false;
  };
  void call(const Source& source, const std::shared_ptr<Call>& place) RUEDA_EXCLUDES(mutex_);

  Mutex mutex_;
  Condition answered_;
  std::shared_ptr<const Source> source_ RUEDA_GUARDED_BY(mutex_);
  std::shared_ptr<Call> running_ RUEDA_GUARDED_BY(mutex_);
  bool stopped_ RUEDA_GUARDED_BY(mutex_) = false;
  Worker worker_;
};

}  // namespace rueda::core
