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
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/engine/device.h"
#include "runtime/engine/executor.h"

namespace rueda::core {

class Operation;

/// What a result looks like.
struct OutputShape {
  std::vector<int64_t> shape;  ///< as in Metadata
  int64_t count = 0;           ///< elements
};

/// One tensor of an operation: what agreement knows as a ticket (its address).
struct TensorPart {
  Operation* operation = nullptr;
  Request request;
  Slice slice{};
  std::unique_ptr<OutputShape> output;  ///< null: the result has the request's shape
  /// Exchanges: the own rows, or those for each rank of the set. `slice.parts` points here.
  std::vector<int64_t> parts;
  std::vector<int64_t> order;      ///< as in rueda_tensor; empty: row-major
  std::vector<int64_t> received;   ///< exchanges: rows from each rank of the set, once they have come
  bool arrives = false;            ///< the result's size is not known before it comes
  Status failure;                  ///< of this rank alone: its peers succeeded
  uint64_t record = 0;             ///< its place in the flight record
  TensorPart* previous = nullptr;  ///< the engine's list of tensors in agreement; the baton's holder
  TensorPart* next = nullptr;
  int64_t output_count() const { return output != nullptr ? output->count : slice.count; }
  /// Without the bytes of an opaque element.
  std::span<const int64_t> output_shape() const {
    const std::span<const int64_t> shape = output != nullptr ? output->shape : request.metadata.shape;
    const size_t inner = request.metadata.shape.size() - request.metadata.dimensions().size();
    return {shape.data(), shape.size() - inner};
  }
};

/// `allreduce "w1"`, or `allreduce` where the caller gave no name: for error sentences.
std::string describe(const TensorPart& tensor);

/// How long an operation may take, first until it is agreed and then while it runs.
struct TimeLimit {
  std::chrono::nanoseconds time{0};  ///< zero: none
  bool is_own = false;               ///< the operation's; else RUEDA_TIMEOUT_SECONDS
};
/// `RUEDA_TIMEOUT_SECONDS (600 s)`, or `its timeout (5 s)` of an operation that has one: for error sentences.
std::string describe(const TimeLimit& limit);

/// What the caller said about one operation. Copied in at enqueue.
struct OperationSpec {
  std::function<void(Code)> callback;           ///< empty: none
  std::function<void(Code)> announce;           ///< called at completion by whoever completes: must not block
  std::function<void*(size_t bytes)> allocate;  ///< empty: the library owns outputs without a place
  const DeviceRow* device = nullptr;            ///< null: the cpu's
  int32_t device_index = 0;
  void* stream = nullptr;
  bool more = false;                                               ///< nobody need be woken for it: see Engine::submit
  std::optional<std::chrono::nanoseconds> timeout = std::nullopt;  ///< zero: endless; none: RUEDA_TIMEOUT_SECONDS
};

/// Whose memory an output is that the caller gave no place for.
enum class Ownership { kLibrary, kCaller };

/// Who moves a batch's data.
enum class BatchRunner { kTurns, kLane };

/// What an operation uses of its engine. `Engine::operation_home` makes it.
struct OperationHome {
  /// Bytes of outputs that the library owns. Shares ownership of the engine, which therefore lives as long as each of
  /// its operations. Null for an operation without an engine, in tests.
  std::shared_ptr<std::atomic<uint64_t>> output_bytes;
  std::chrono::nanoseconds timeout{0};  ///< RUEDA_TIMEOUT_SECONDS: of operations that bring no limit; zero: none
};

/// An operation in flight or finished: one tensor or a group. Shared by its handle and, until it completes, by the
/// engine. Its tensors are fixed before submission. `finish_tensor` is called once per tensor; the last call completes
/// the operation.
class Operation : public std::enable_shared_from_this<Operation> {
 public:
  Operation(OperationHome home, OperationSpec spec, size_t tensors);
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  std::vector<TensorPart>& tensors() { return tensors_; }
  const std::vector<TensorPart>& tensors() const { return tensors_; }
  const OperationSpec& spec() const { return spec_; }
  TimeLimit limit() const;
  SetId set() const { return tensors_.empty() ? kGlobalSet : tensors_.front().request.set; }
  /// Of the first tensor; an all-reduce where there is none.
  OpKind kind() const { return tensors_.empty() ? OpKind::kAllreduce : tensors_.front().request.metadata.kind; }

  /// Any thread. Acquires: after true, `status` and the output may be read.
  bool done() const { return state_.load(std::memory_order_acquire) == kDone; }
  /// Only once done.
  const Status& status() const { return status_; }

  /// The output of tensor `index` lies at `memory` from now on; the library's memory is freed with the operation.
  void own_output(size_t index, std::byte* memory, size_t bytes, Ownership ownership);
  /// Whether any output lies, or will lie, in memory of the library's. Before submission.
  bool owns_outputs() const;

  /// Marks the point in the caller's stream after which the inputs are ready. The caller's thread, before submission.
  /// kSystem: the device cannot.
  Status mark_inputs();
  /// A tensor has finished; whoever ran it calls, no lock held. The first failure is the operation's status. True for
  /// the call that finished the last one: the caller then calls `complete`.
  bool finish_tensor(const Status& status);
  /// Orders the caller's stream after the outputs, which have been written (a device that cannot: kSystem), publishes
  /// the result and wakes all waiters. Once.
  void complete();
  /// Sleeps until done. kTimeout at the deadline, kInterrupted when a signal handler ran.
  Status sleep(Deadline deadline);
  /// The same for who abandons it, and returns as well once a batch has it.
  Status sleep_until_decided(Deadline deadline);
  /// A tensor is in a batch from now on, one that turns step or one for its lane's thread. The baton's holder.
  void enter_batch(BatchRunner runner);
  bool in_batch() const { return state_.load() != kPending; }
  bool on_lane() const { return state_.load(std::memory_order_relaxed) == kOnLane; }

  uint64_t token = 0;                    ///< the device's mark at enqueue; 0: none
  SteadyClock::time_point submitted;     ///< when it entered the inbox
  int last_joined = -1;                  ///< of a join that has ended well: who joined last
  int source = -1;                       ///< of a receive: from whom, once that is known
  bool abandoned = false;                ///< an error verdict was asked for; the baton's holder
  std::shared_ptr<Operation> in_flight;  ///< itself, from submission to completion

 private:
  static constexpr uint32_t kPending = 0, kInTurns = 1, kOnLane = 2, kDone = 3;
  Status sleep_while(uint32_t last, Deadline deadline);
  void wake();
  Status mark_outputs();
  void free_token();

  const OperationHome home_;
  OperationSpec spec_;
  std::vector<TensorPart> tensors_;
  struct Output {
    std::byte* memory;
    size_t bytes;
    Ownership ownership;
  };
  std::vector<Output> outputs_;
  std::atomic<size_t> remaining_;
  Mutex failure_mutex_;
  Status status_;                          ///< under failure_mutex_ until done, then constant
  std::atomic<uint32_t> state_{kPending};  ///< a futex word
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<bool> deciding_{false};  ///< somebody sleeps until it is in a batch
};

}  // namespace rueda::core
