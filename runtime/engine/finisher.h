#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "runtime/base/abort.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/device_marks.h"
#include "runtime/engine/lane.h"

namespace rueda::core {

/// Batches that a lane has launched on a device and that the device has not finished. A thread, started by the first of
/// them, waits for their marks in the order of launching, which is the order in which one stream passes them, and
/// finishes each. It sleeps while there is none. The engine owns it.
class Finisher {
 public:
  /// `finish` is called on the thread, once for each batch, and `look` about once a second while it waits for one: so a
  /// failure is found that no mark tells of. `abort` outlives it.
  using Finish = std::function<void(Batch& batch, const Status& result)>;
  using Look = std::function<void(const Batch& batch)>;
  Finisher(const Abort& abort, Finish finish, Look look)
      : abort_(abort), finish_(std::move(finish)), look_(std::move(look)) {}
  ~Finisher() { stop(); }
  Finisher(const Finisher&) = delete;
  Finisher& operator=(const Finisher&) = delete;

  /// Takes a launched batch, whose device call has a mark. Finishes it at once, with kSystem, if the machine has no
  /// thread to give. A lane's thread.
  void add(std::unique_ptr<Batch> batch) RUEDA_EXCLUDES(mutex_);
  /// Whether this batch is launched and not finished. Any thread; the answer may be old at once.
  bool has(SetId set, uint64_t number) const RUEDA_EXCLUDES(mutex_);
  bool idle() const RUEDA_EXCLUDES(mutex_);
  /// Waits until it is idle. Returns false at the deadline. Any thread.
  bool drain(Deadline deadline) RUEDA_EXCLUDES(mutex_);
  /// After the abort was raised: what the device does not finish soon fails. Any thread.
  void wake() RUEDA_EXCLUDES(mutex_);
  /// Finishes all, then ends the thread. The engine's owner, after the abort was raised.
  void stop() RUEDA_EXCLUDES(mutex_);

 private:
  void run() RUEDA_EXCLUDES(mutex_);
  Status await_safely(const Batch& batch);
  Status await(const Batch& batch) RUEDA_EXCLUDES(mutex_);
  void doze(Deadline until) RUEDA_EXCLUDES(mutex_);

  const Abort& abort_;
  const Finish finish_;
  const Look look_;
  mutable Mutex mutex_;
  Condition changed_;
  std::deque<std::unique_ptr<Batch>> launched_ RUEDA_GUARDED_BY(mutex_);  ///< the head stays until it is finished
  uint64_t news_ RUEDA_GUARDED_BY(mutex_) = 0;                            ///< a mark was passed, or the abort raised
  bool stopping_ RUEDA_GUARDED_BY(mutex_) = false;
  std::optional<Deadline> last_;  ///< the thread's: what is left after the end of the epoch has until then
  std::thread thread_;
};

}  // namespace rueda::core
