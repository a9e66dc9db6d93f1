// An operation's state only grows: pending, in a batch (that turns step, or that a lane's thread runs), launched on a
// device, done. The word is also a futex: waiters sleep on it. `complete` makes no system call unless a waiter sleeps,
// because a small operation takes a few microseconds in all. `sleepers_` is raised before a waiter looks at the state,
// and `complete` stores the state before it looks at `sleepers_`; both are sequentially consistent, so one of the two
// sees the other.
#include "runtime/engine/operation.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace rueda::core {

std::string describe(const TensorPart& tensor) {
  const Request& request = tensor.request;
  std::string text = name_of(request.metadata.kind);
  if (!request.name.empty()) text += " \"" + request.name.str() + "\"";
  return text;
}

std::string describe(const TimeLimit& limit) {
  const double seconds = std::chrono::duration<double>(limit.time).count();
  return fmt::format("{} ({} s)", limit.is_own ? "its timeout" : "RUEDA_TIMEOUT_SECONDS", seconds);
}

/// The tensors never move afterwards: their addresses are agreement's tickets.
Operation::Operation(OperationHome&& home, OperationSpec&& spec, size_t tensors)
    : home_(std::move(home)),
      spec_(std::move(spec)),
      several_(tensors > 1 ? tensors : 0),
      tensors_(tensors > 1 ? std::span(several_) : std::span(&one_, tensors)),
      remaining_(tensors),
      to_launch_(tensors) {
  if (spec_.device == nullptr) spec_.device = &cpu_device();
  for (TensorPart& tensor : tensors_) tensor.operation = this;
}

/// Memory that the caller gave stays the caller's, also if its callback made it.
Operation::~Operation() {
  free_token();
  free_outputs();
}

/// Without a lock for the many operations that own none: an operation that is done gets no outputs any more.
void Operation::free_outputs() {
  if (outputs_.empty()) return;
  std::vector<Output> outputs;
  {
    MutexLock lock(marks_mutex_);
    outputs.swap(outputs_);
  }
  for (const Output& output : outputs) {
    if (output.ownership != Ownership::kLibrary) continue;
    spec_.device->free(spec_.device->context, spec_.device_index, output.memory, spec_.stream);
    if (home_.output_bytes != nullptr) home_.output_bytes->fetch_sub(output.bytes, std::memory_order_relaxed);
  }
}

void Operation::own_output(size_t index, std::byte* memory, size_t bytes, Ownership ownership) {
  outputs_.push_back({memory, bytes, ownership});
  const bool counts = ownership == Ownership::kLibrary && home_.output_bytes != nullptr;
  if (counts) home_.output_bytes->fetch_add(bytes, std::memory_order_relaxed);
  tensors_[index].slice.out = memory;
}

/// A zero of the operation's own means no limit, also if RUEDA_TIMEOUT_SECONDS sets one.
TimeLimit Operation::limit() const {
  if (spec_.timeout) return {*spec_.timeout, true};
  return {home_.timeout, false};
}

/// An output that arrives counts before it has memory: if nothing else gives it any, the library will.
bool Operation::owns_outputs() const {
  const auto arrives = [this](const TensorPart& tensor) {
    return tensor.arrives && tensor.slice.out == nullptr && !spec_.allocate;
  };
  return std::any_of(tensors_.begin(), tensors_.end(), arrives) ||
         std::any_of(outputs_.begin(), outputs_.end(),
                     [](const Output& output) { return output.ownership == Ownership::kLibrary; });
}

/// Memory of the library's is freed in the order of the caller's stream, and memory from its callback is used in that
/// order: both happen on other threads than this one.
Status Operation::check_stream() const {
  const DeviceFunctions& device = *spec_.device;
  if (!(owns_outputs() || spec_.allocate) || device.shareable(device.context, spec_.stream) != 0) return {};
  return {Code::kInvalidArgument,
          fmt::format("{}: the stream is the calling thread's own, and an output without memory needs one that other "
                      "threads can use: give the output memory, or another stream",
                      tensors_.empty() ? name_of(kind()) : describe(tensors_.front()))};
}

/// A failure leaves token 0, which nothing waits for: the operation is refused then.
Status Operation::mark_inputs() {
  if (Status refused = check_stream(); !refused.ok()) return refused;
  const DeviceFunctions& device = *spec_.device;
  if (device.mark(device.context, spec_.device_index, spec_.stream, &token) == 0) return {};
  token = 0;
  return device_error(device, spec_.device_index, "mark the caller's stream at enqueue");
}

bool Operation::launch_tensor(std::shared_ptr<const DeviceMark> mark) {
  {
    MutexLock lock(marks_mutex_);
    if (marks_.empty() || marks_.back() != mark) marks_.push_back(std::move(mark));
  }
  return to_launch_.fetch_sub(1) == 1;
}

void Operation::launched() {
  state_.store(kLaunched);
  if (sleepers_.load() != 0) wake();
}

/// Under the mutex, so that `complete` does not free a mark meanwhile. The device's functions do not block.
Status Operation::order(void* stream) {
  MutexLock lock(marks_mutex_);
  for (const auto& mark : marks_) {
    const DeviceFunctions& device = mark->functions();
    if (device.order_after(device.context, mark->index(), mark->token(), stream) != 0) {
      return device_error(device, mark->index(), "make a stream wait for the outputs of " + describe(tensors_.front()));
    }
  }
  return {};
}

void Operation::free_token() {
  if (token == 0) return;
  spec_.device->free_token(spec_.device->context, token);
  token = 0;
}

/// Tensors of a group may finish on several threads at once. The one that counts down to zero completes.
bool Operation::finish_tensor(const Status& status) {
  if (!status.ok()) {
    MutexLock lock(failure_mutex_);
    if (status_.ok()) status_ = status;
  }
  return tensors_.size() == 1 || remaining_.fetch_sub(1) == 1;
}

/// The state is the last word before the wake-up: a waiter that sees it may free the operation's handle at once. The
/// caller of this holds a reference of its own, so `announce` may still run.
void Operation::complete() {
  free_token();
  if (to_launch_.load() < tensors_.size()) {  // else there are no marks: nothing was launched on a device
    MutexLock lock(marks_mutex_);
    marks_.clear();  // passed: a stream that is asked to wait from now on need not
  }
  // No lock: all tensors have finished, so no thread changes the status, and waiters read it after the state.
  state_.store(kDone);
  if (sleepers_.load() != 0) wake();
  if (spec_.announce) spec_.announce(status_.code());
}

void Operation::enter_batch(BatchRunner runner) {
  state_.store(runner == BatchRunner::kLane ? kOnLane : kInTurns);
  if (deciding_.load()) wake();  // waiters for the result are not woken for this
}

void Operation::wake() { ::syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0); }

Status Operation::sleep(Deadline deadline, Stage stage) {
  return sleep_while(stage == Stage::kLaunched ? kOnLane : kLaunched, deadline);
}

/// The flag first: `enter_batch` sets the state and then looks at the flag, so one of the two sees the other.
Status Operation::sleep_until_decided(Deadline deadline) {
  deciding_.store(true);
  return sleep_while(kPending, deadline);
}

/// Sleeps until the state is beyond `last`. The kernel puts the thread to sleep only if the state is still the one that
/// was read, so a change in between is not missed.
Status Operation::sleep_while(uint32_t last, Deadline deadline) {
  sleepers_.fetch_add(1);
  Status result;
  for (uint32_t state = state_.load(); state <= last; state = state_.load()) {
    if (deadline.passed()) {
      result = Status(Code::kTimeout, (tensors_.empty() ? name_of(kind()) : describe(tensors_.front())) +
                                          ": the wait's timeout passed; the operation is still in flight");
      break;
    }
    const auto left = deadline.left(std::chrono::hours(1));  // an endless wait looks again every hour
    const timespec time{std::chrono::duration_cast<std::chrono::seconds>(left).count(), left.count() % 1'000'000'000};
    const long rc = ::syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, state, &time, nullptr, 0);
    // The caller decides whether to go on after a signal: Python has handlers to run.
    if (rc != 0 && errno == EINTR && state_.load() <= last) {
      result = Status(Code::kInterrupted, "a signal arrived while waiting; the operation is still in flight");
      break;
    }
  }
  sleepers_.fetch_sub(1);
  return result;
}

}  // namespace rueda::core
