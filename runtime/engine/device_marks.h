#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/agreement/request.h"
#include "runtime/base/deadline.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/engine/device.h"
#include "runtime/engine/executor.h"

namespace rueda::core {

/// Returns the error for a call of `functions` that has just failed on this thread: `what` the engine wanted, and the
/// device's own sentence.
Status device_error(const DeviceFunctions& functions, int32_t index, std::string_view what);

/// A mark in a stream that several users share; the last one frees it. Immutable: any thread.
class DeviceMark {
 public:
  /// Takes the token over. 0 stands for a mark that has been passed.
  DeviceMark(const DeviceFunctions& functions, int32_t index, uint64_t token)
      : functions_(functions), index_(index), token_(token) {}
  ~DeviceMark() {
    if (token_ != 0) functions_.free_token(functions_.context, token_);
  }
  DeviceMark(const DeviceMark&) = delete;
  DeviceMark& operator=(const DeviceMark&) = delete;
  const DeviceFunctions& functions() const { return functions_; }
  int32_t index() const { return index_; }
  uint64_t token() const { return token_; }
  /// Whether the device has passed it. Returns kSystem if the device failed.
  Result<bool> passed() const;

 private:
  const DeviceFunctions& functions_;
  const int32_t index_;
  const uint64_t token_;
};

/// Makes a mark at the end of `stream`. Returns kSystem if the device fails.
Result<std::shared_ptr<const DeviceMark>> make_mark(const DeviceFunctions& functions, int32_t index, void* stream);

/// Makes `stream` wait for the token's mark; the host does not wait. Returns kSystem if the device fails.
Status order_after(const DeviceFunctions& functions, int32_t index, uint64_t token, void* stream);

class DeviceTimes;

/// The device's side of a batch whose tensors lie in its memory. Owned by the batch, filled in by the turn, then used
/// by the thread that runs it.
struct DeviceCall {
  const DeviceFunctions* functions = nullptr;
  int32_t index = 0;
  int32_t kind = 0;  ///< of the device: the value of rueda_tensor.device, also if this rank has joined and brings none
  SetId set = kGlobalSet;  ///< the batch's, by the id that rank 0 gave it
  /// Borrowed from the operations: the inputs may be read, and the outputs written, after these.
  std::vector<uint64_t> ready;
  /// If some members do not contribute to every tensor: all tensors of the batch, in the order that all members share.
  /// Both addresses are null in a tensor that this rank does not bring. Empty if all members contribute everything.
  std::vector<Slice> tensors;
  std::vector<size_t> own;  ///< the positions there of the tensors that this rank brings
  /// Outputs that were allocated late may be written after these.
  std::vector<std::shared_ptr<const DeviceMark>> late;
  /// Set by the algorithm: the outputs may be used after it. Null if they can be used already.
  std::shared_ptr<const DeviceMark> finished;
  bool by_engine = false;              ///< set by the executor: the device's engine has run the batch
  std::shared_ptr<DeviceTimes> times;  ///< null unless a timeline is recorded
};

/// Wakes whoever waits for a mark. A device may call it long after nobody waits any more; so it is known to the device
/// by a number, and a number that is gone wakes nobody. Any thread.
class MarkNotice {
 public:
  /// `wake` is called on a thread of the device's library. It must not block.
  explicit MarkNotice(std::function<void()> wake);
  /// Waits for a `wake` that is running.
  ~MarkNotice();
  MarkNotice(const MarkNotice&) = delete;
  MarkNotice& operator=(const MarkNotice&) = delete;
  /// Has the device call `wake` once the mark has been passed. Returns kSystem if the device fails.
  Status ask(const DeviceMark& mark, MarkAsker asker) const;

 private:
  uintptr_t number_;
};

}  // namespace rueda::core
