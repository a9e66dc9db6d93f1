#pragma once
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rueda/tensor.hpp"

namespace rueda {

using Seconds = std::chrono::duration<double>;

/// The time that a handle's destructor waits for a running batch before it ends the job's epoch.
inline constexpr Seconds kAbandonLimit{30};

/// An operation in flight or finished. Move-only. It may outlive its session. One thread at a time may move or destroy
/// it; any thread may wait.
///
/// The destructor *abandons* the operation: when it returns, the library no longer touches the tensors, so memory is
/// never lent beyond the scope that holds the handle. Abandoning an operation that is in flight makes it fail on all
/// ranks; the destructor waits for one that is running, at most `kAbandonLimit`. To avoid both, wait first, or call
/// `release()` and keep the memory alive. The library refuses to abandon inside a callback: release handles there.
class [[nodiscard]] Handle {
 public:
  Handle() = default;
  explicit Handle(rueda_handle id) : id_(id) {}  ///< takes ownership of `id`
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, 0)) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      drop();
      id_ = std::exchange(other.id_, 0);
    }
    return *this;
  }
  ~Handle() { drop(); }

  bool valid() const noexcept { return id_ != 0; }
  rueda_handle id() const noexcept { return id_; }

  /// Waits until the operation has finished and throws its error. Interrupted: a signal arrived; wait again.
  void wait() const { finish(rueda_wait(id_, -1.0)); }
  /// Waits at most `timeout`. Returns false if the operation is still in flight; it can be waited for again.
  [[nodiscard]] bool wait_for(Seconds timeout) const {
    const int32_t code = rueda_wait(id_, timeout.count() < 0 ? 0 : timeout.count());
    if (code == RUEDA_TIMEOUT && rueda_poll(id_) == 0) return false;
    finish(code);
    return true;
  }
  /// For tensors on a device: waits until the device has all of the operation's work, and makes `stream` wait for the
  /// output. The host does not wait for the device; the loan lasts until `poll` returns true, and `wait` says whether
  /// all went well. In host memory it waits as `wait`.
  void wait_stream(void* stream) const { finish(rueda_wait_stream(id_, stream, -1.0)); }
  /// Returns whether the operation has finished. Never blocks.
  bool poll() const {
    const int32_t state = rueda_poll(id_);
    if (state < 0) check(rueda_last_error_code());
    return state == 1;
  }
  /// The error sentence of a finished operation; empty if it succeeded or is in flight.
  std::string error() const { return rueda_handle_error(id_); }

  /// Detaches from the operation, which goes on. The tensors stay lent until it has finished; only a callback reports
  /// that.
  void release() {
    if (id_ != 0) check(rueda_release(std::exchange(id_, 0)));
  }
  /// Ends the loan of the tensors, at the latest when the job's epoch ends after `limit`, and throws the operation's
  /// error: Timeout if it was in no batch yet.
  void abandon(Seconds limit = kAbandonLimit) { finish(rueda_abandon(id_, limit.count())); }

  /// The numbers of rows that a finished exchange received from each rank, in rank order; for a group, those of all its
  /// tensors one after the other.
  std::vector<int64_t> received_splits() const {
    size_t count = 0;
    check(rueda_received_splits(id_, nullptr, 0, &count));
    std::vector<int64_t> splits(count);
    check(rueda_received_splits(id_, splits.data(), splits.size(), &count));
    return splits;
  }
  /// The rank of the job that sent the message of a finished receive. InvalidArgument: the operation received no
  /// message.
  int32_t source() const {
    int32_t rank = -1;
    check(rueda_source(id_, &rank));
    return rank;
  }
  /// The rank that joined last, after a successful join. InvalidArgument: not such an operation.
  int32_t last_joined() const {
    int32_t rank = -1;
    check(rueda_last_joined(id_, &rank));
    return rank;
  }
  /// The output of tensor `index` of an operation that has finished or has been launched on a device. Memory that the
  /// library owns is freed with this handle.
  Tensor output(size_t index = 0) const {
    rueda_tensor tensor{};
    tensor.struct_size = sizeof tensor;
    check(rueda_output(id_, index, &tensor));
    const auto dimensions = static_cast<size_t>(tensor.dimensions);
    const Tensor output = Tensor(tensor.data, tensor.dtype, std::span(tensor.shape, dimensions), tensor.element_bytes)
                              .on({tensor.device, tensor.device_index});
    return tensor.order == nullptr ? output : output.ordered(std::span(tensor.order, dimensions));
  }

 private:
  // Uses the operation's sentence if there is one, else the sentence of the call.
  void finish(int32_t code) const {
    if (code == RUEDA_OK) return;
    const std::string refusal = rueda_last_error();
    const std::string sentence = rueda_handle_error(id_);
    throw_error(code, sentence.empty() ? refusal : sentence);
  }
  void drop() noexcept {
    if (id_ == 0) return;
    static_cast<void>(rueda_abandon(id_, kAbandonLimit.count()));
    static_cast<void>(rueda_release(std::exchange(id_, 0)));
  }

  rueda_handle id_ = 0;
};

}  // namespace rueda
