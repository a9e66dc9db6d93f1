#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/agreement/request.h"
#include "runtime/base/deadline.h"
#include "runtime/base/fast_mutex.h"
#include "runtime/base/status.h"
#include "runtime/engine/baton.h"
#include "runtime/engine/device.h"
#include "runtime/engine/device_marks.h"
#include "runtime/engine/executor.h"

namespace rueda::core {

class Engine;
class Operation;

/// What a result looks like.
struct OutputShape {
  Extents shape;      ///< as in Metadata
  int64_t count = 0;  ///< elements
};

/// One tensor of an operation: what agreement knows as a ticket (its address).
struct TensorPart {
  Operation* operation = nullptr;
  Request request;
  Slice slice{};
  std::unique_ptr<OutputShape> output;  ///< null if the result has the request's shape
  /// Exchanges: the own rows, or those for each rank of the set. `slice.parts` points here.
  std::vector<int64_t> parts;
  std::vector<int64_t> order;     ///< as in rueda_tensor; empty if row-major
  std::vector<int64_t> received;  ///< exchanges: rows from each rank of the set, once they have come
  bool arrives = false;           ///< the result's size is not known before it comes
  Status failure;                 ///< of this rank alone: its peers succeeded
  uint64_t record = 0;            ///< its number in the flight record
  /// The list of tensors in agreement: see `Turn`.
  TensorPart* previous RUEDA_GUARDED_BY(baton_holder) = nullptr;
  TensorPart* next RUEDA_GUARDED_BY(baton_holder) = nullptr;
  int64_t output_count() const { return output != nullptr ? output->count : slice.count; }
  /// Without the bytes of an opaque element.
  std::span<const int64_t> output_shape() const {
    const std::span<const int64_t> shape = output != nullptr ? output->shape : request.metadata.shape;
    const size_t inner = request.metadata.shape.size() - request.metadata.dimensions().size();
    return {shape.data(), shape.size() - inner};
  }
};

/// `allreduce "w1"`, or `allreduce` if the caller gave no name: for error sentences.
std::string describe(const TensorPart& tensor);

/// How long an operation may take, first until it is agreed and then while it runs.
struct TimeLimit {
  std::chrono::nanoseconds time{0};  ///< zero if there is no limit
  bool is_own = false;               ///< set for this operation; else it is RUEDA_TIMEOUT_SECONDS
};
/// `RUEDA_TIMEOUT_SECONDS (600 s)`, or `its timeout (5 s)` if the operation brings one: for error sentences.
std::string describe(const TimeLimit& limit);

/// What the caller said about one operation. Copied in at enqueue.
struct OperationSpec {
  std::function<void(Code)> callback;           ///< the completer's thread calls it; may be empty
  std::function<void(Code)> announce;           ///< the completing thread calls it: must not block; may be empty
  std::function<void*(size_t bytes)> allocate;  ///< makes outputs without an address; if empty, the library makes them
  const DeviceFunctions* device = nullptr;      ///< null for the host's memory
  int32_t device_index = 0;
  void* stream = nullptr;
  bool more = false;                                               ///< it need wake no thread: see `Engine::submit`
  std::optional<std::chrono::nanoseconds> timeout = std::nullopt;  ///< zero for no limit; none: RUEDA_TIMEOUT_SECONDS
};

/// The owner of an output's memory if the caller gave no address for it.
enum class Ownership { kLibrary, kCaller };

/// How far an operation is: on a device it is launched first, and finished when the device has passed its mark. In the
/// host's memory the two are one.
enum class Stage { kLaunched, kFinished };

/// The threads that move a batch's data: those that run turns, or the thread of its lane.
enum class BatchRunner { kTurns, kLane };

/// What an operation uses of its engine. `Engine::operation_home` makes it.
struct OperationHome {
  std::shared_ptr<Engine> engine;                 ///< lives as long as each of its operations; null in tests
  std::atomic<uint64_t>* output_bytes = nullptr;  ///< the engine's: bytes of outputs that the library owns
  std::chrono::nanoseconds timeout{0};  ///< RUEDA_TIMEOUT_SECONDS: for operations that bring no limit; zero for none
};

/// An operation in flight or finished: one tensor or a group. Shared by its handle and, until it completes, by the
/// engine (its inbox, then `in_flight`). Before submission it belongs to the caller's thread, which fixes its tensors.
/// `finish_tensor` is called once per tensor; the last call completes the operation. Afterwards it does not change, and
/// any thread may read it.
class Operation {
 public:
  Operation(OperationHome&& home, OperationSpec&& spec, size_t tensors);
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  std::span<TensorPart> tensors() { return tensors_; }
  std::span<const TensorPart> tensors() const { return tensors_; }
  const OperationSpec& spec() const { return spec_; }
  /// The engine that runs it; valid as long as the operation. Null in tests.
  Engine* engine() const { return home_.engine.get(); }
  TimeLimit limit() const;
  SetId set() const { return tensors_.empty() ? kGlobalSet : tensors_.front().request.set; }
  /// Of the first tensor; an all-reduce if there is none.
  OpKind kind() const { return tensors_.empty() ? OpKind::kAllreduce : tensors_.front().request.metadata.kind; }

  /// Any thread. Acquires: once it has returned true, `status` and the output may be read.
  bool done() const { return state_.load(std::memory_order_acquire) == kDone; }
  /// Only once done.
  const Status& status() const { return status_; }

  /// The output of tensor `index` lies at `memory` from now on; memory that the library owns is freed with the
  /// operation. Call `expect_outputs` before you allocate the output: then this call allocates nothing, and no output
  /// is lost.
  void own_output(size_t index, std::byte* memory, size_t bytes, Ownership ownership);
  void expect_outputs() { outputs_.reserve(tensors_.size()); }
  /// Frees the outputs that lie in the library's memory. Of an operation that is done, once its handle is released: the
  /// engine may hold it for a moment longer, and the stream in whose order memory is freed need not live until then.
  void free_outputs() RUEDA_EXCLUDES(marks_mutex_);
  /// Whether any output lies, or will lie, in the library's memory. Before submission.
  bool owns_outputs() const;

  /// Marks the point in the caller's stream after which the inputs are ready. The caller's thread, before submission.
  /// Returns kSystem if the device fails or refuses the stream, and kInvalidArgument if the library would have to use a
  /// stream whose handle means another one on its threads.
  Status mark_inputs();
  /// The outputs of a tensor may be used behind `mark`. The lane's thread, before `finish_tensor`. Returns true for the
  /// last tensor: the caller then calls `launched`.
  bool launch_tensor(std::shared_ptr<const DeviceMark> mark) RUEDA_EXCLUDES(marks_mutex_);
  /// Lets those go on that wait for `Stage::kLaunched`.
  void launched();
  /// Makes `stream` wait for the outputs of a launched operation; the host does not wait. Does nothing once it is done.
  /// The thread that may use the stream. Returns kSystem if the device fails.
  Status order(void* stream) RUEDA_EXCLUDES(marks_mutex_);
  /// Any thread.
  bool reached(Stage stage) const {
    return state_.load(std::memory_order_acquire) >= (stage == Stage::kLaunched ? kLaunched : kDone);
  }
  /// A tensor has finished. The thread that ran it calls this, with no lock held. The first failure becomes the
  /// operation's status. Returns true for the last tensor: the caller then calls `complete`.
  bool finish_tensor(const Status& status);
  /// Publishes the result and wakes all waiters. The outputs have been written. Called once.
  void complete();
  /// Blocks until the stage is reached. Returns kTimeout at the deadline, kInterrupted after a signal handler has run.
  /// Any thread.
  Status sleep(Deadline deadline, Stage stage = Stage::kFinished);
  /// The same for a thread that abandons the operation: returns as well once a batch has it.
  Status sleep_until_decided(Deadline deadline);
  /// A tensor is in a batch from now on; `runner` says whether turns or the lane's thread run it.
  void enter_batch(BatchRunner runner) RUEDA_ON(baton_holder);
  bool in_batch() const { return state_.load() != kPending; }
  bool on_lane() const { return state_.load(std::memory_order_relaxed) == kOnLane; }

  uint64_t token = 0;                                     ///< the device's mark at enqueue; 0 if none
  SteadyClock::time_point submitted;                      ///< when it entered the inbox
  int last_joined = -1;                                   ///< of a join that has ended well: the rank that joined last
  int source = -1;                                        ///< of a receive: the sender, once that is known
  bool abandoned RUEDA_GUARDED_BY(baton_holder) = false;  ///< an error verdict was asked for
  std::shared_ptr<Operation> in_flight;                   ///< itself, from a turn's look at it to completion
  bool names_free = false;                                ///< since its launch: its names may be in use again

 private:
  static constexpr uint32_t kPending = 0, kInTurns = 1, kOnLane = 2, kLaunched = 3, kDone = 4;
  Status sleep_while(uint32_t last, Deadline deadline);
  void wake();
  Status check_stream() const;
  void free_token();

  const OperationHome home_;
  OperationSpec spec_;
  TensorPart one_;  ///< most operations have one tensor, which then costs no memory of its own
  std::vector<TensorPart> several_;
  const std::span<TensorPart> tensors_;  ///< one of the two
  struct Output {
    std::byte* memory;
    size_t bytes;
    Ownership ownership;
  };
  std::vector<Output> outputs_;
  std::atomic<size_t> remaining_;
  std::atomic<size_t> to_launch_;
  FastMutex marks_mutex_;
  /// One for each batch that is launched and not finished.
  std::vector<std::shared_ptr<const DeviceMark>> marks_ RUEDA_GUARDED_BY(marks_mutex_);
  FastMutex failure_mutex_;
  Status status_;                          ///< under failure_mutex_ until done, then constant
  std::atomic<uint32_t> state_{kPending};  ///< a futex word
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<bool> deciding_{false};  ///< a thread sleeps in `sleep_until_decided`
};

}  // namespace rueda::core
