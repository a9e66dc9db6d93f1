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

/// How long a handle's destructor waits for a batch that is running before it ends the job's epoch.
inline constexpr Seconds kAbandonLimit{30};

/// An operation in flight or finished. Move-only; may outlive its session. One thread at a time may move or destroy it,
/// any may wait.
///
/// The destructor *abandons*: when it returns the library does not touch the tensors any more, so memory is never lent
/// beyond the scope that holds the handle. For an operation still in flight this costs all ranks that operation, and
/// one that is running is waited for, up to `kAbandonLimit`; wait first, or `release()` it and keep the memory alive.
/// Inside a callback the library refuses to abandon: release handles there.
class [[nodiscard]] Handle {
 public:
  Handle() = default;
  explicit Handle(rueda_handle id) : id_(id) {}  ///< takes over `id`
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

  /// Waits until the operation has finished; throws its error. Interrupted: a signal came, wait again.
  void wait() const { finish(rueda_wait(id_, -1.0)); }
  /// Waits at most `timeout`; false when the operation is in flight still and can be waited for again.
  [[nodiscard]] bool wait_for(Seconds timeout) const {
    const int32_t code = rueda_wait(id_, timeout.count() < 0 ? 0 : timeout.count());
    if (code == RUEDA_TIMEOUT && rueda_poll(id_) == 0) return false;
    finish(code);
    return true;
  }
  /// Whether the operation has finished. Never blocks.
  bool poll() const {
    const int32_t state = rueda_poll(id_);
    if (state < 0) check(rueda_last_error_code());
    return state == 1;
  }
  /// The error sentence of a finished operation; empty if it succeeded or is in flight.
  std::string error() const { return rueda_handle_error(id_); }

  /// Lets the operation go on by itself: the tensors stay lent until it has finished, which only a callback tells.
  void release() {
    if (id_ != 0) check(rueda_release(std::exchange(id_, 0)));
  }
  /// Takes the tensors back, at the latest at the end of the job's epoch after `limit`; throws what the operation ended
  /// with: Timeout where it was in no batch yet.
  void abandon(Seconds limit = kAbandonLimit) { finish(rueda_abandon(id_, limit.count())); }

  /// The rows that a finished exchange received from each rank, in the order of ranks; of a group those of all members,
  /// one after the other.
  std::vector<int64_t> received_splits() const {
    size_t count = 0;
    check(rueda_received_splits(id_, nullptr, 0, &count));
    std::vector<int64_t> splits(count);
    check(rueda_received_splits(id_, splits.data(), splits.size(), &count));
    return splits;
  }
  /// Who sent what a finished operation received, a rank of the job. InvalidArgument: it received nothing.
  int32_t source() const {
    int32_t rank = -1;
    check(rueda_source(id_, &rank));
    return rank;
  }
  /// The rank that joined last, of a join that has finished well. InvalidArgument: it is none.
  int32_t last_joined() const {
    int32_t rank = -1;
    check(rueda_last_joined(id_, &rank));
    return rank;
  }
  /// The output of member `index` of a finished operation, wherever it was placed. Memory that the library owns goes
  /// with this handle.
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
  // The sentence of the operation where it has one, else that of the call itself.
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
