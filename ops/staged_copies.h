#pragma once
#include <memory>
#include <string>
#include <utility>

#include "ops/pinned_blocks.h"
#include "runtime/engine/device_times.h"
#include "runtime/engine/executor.h"

namespace rueda::core {

/// A block for a scope. What still copies from it when the scope ends is said by `busy`. Used by the device lane's
/// thread.
class StagedBlock {
 public:
  explicit StagedBlock(PinnedBlocks::Block* block) : block_(block) {}
  ~StagedBlock() { release(); }
  StagedBlock(StagedBlock&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)), busy_(std::move(other.busy_)) {}
  StagedBlock& operator=(StagedBlock&& other) noexcept {
    release();
    block_ = std::exchange(other.block_, nullptr);
    busy_ = std::move(other.busy_);
    return *this;
  }
  std::byte* memory() const { return block_->memory; }
  void busy(std::shared_ptr<const DeviceMark> mark) { busy_ = std::move(mark); }

 private:
  void release() {
    if (block_ != nullptr) PinnedBlocks::give(*block_, std::move(busy_));
  }
  PinnedBlocks::Block* block_;
  std::shared_ptr<const DeviceMark> busy_;
};

/// The copies of one batch, in the two streams of its device. Used by the device lane's thread.
class StagedCopies {
 public:
  explicit StagedCopies(const Call& call) : device_(*call.device), functions_(*device_.functions) {}

  /// Puts both streams behind the marks of the inputs.
  Status begin() {
    for (const EngineStream which : {EngineStream::kToHost, EngineStream::kFromHost}) {
      void*& stream = which == EngineStream::kToHost ? out_ : in_;
      stream = functions_.engine_stream(functions_.context, device_.index, which);
      if (stream == nullptr) return device_error(functions_, device_.index, "make a stream");
      for (const uint64_t token : device_.ready) RUEDA_RETURN_IF_ERROR(order(stream, token));
    }
    return order_late();
  }
  /// Puts the copies to the device behind outputs that were allocated since.
  Status order_late() {
    for (; late_ < device_.late.size(); ++late_) RUEDA_RETURN_IF_ERROR(order(in_, device_.late[late_]->token()));
    return {};
  }
  Status to_host(std::byte* host, const std::byte* tensor, size_t bytes) { return copy(host, tensor, bytes, out_); }
  Status from_host(std::byte* tensor, const std::byte* host, size_t bytes) { return copy(tensor, host, bytes, in_); }
  /// After a failure: leaves the mark behind all that the device still does with the tensors. The device may have
  /// failed itself; then there is nothing to wait for.
  void finish_all() {
    if (in_ == nullptr) return;
    const auto read = mark_to_host();
    if (!read.ok() || !order(in_, read.value()->token()).ok()) return;
    auto all = mark_from_host();
    if (all.ok()) device_.finished = std::move(all).value();
  }
  /// After `finish_all`: copies that were begun may still use the block, whatever step failed.
  void still_use(StagedBlock& block) const {
    if (device_.finished != nullptr) block.busy(device_.finished);
  }
  /// For a scope: what goes into a stream, for a timeline.
  DevicePhaseScope packing() const { return DevicePhaseScope(device_, DevicePhase::kPack, out_); }
  DevicePhaseScope unpacking() const { return DevicePhaseScope(device_, DevicePhase::kUnpack, in_); }
  Result<std::shared_ptr<const DeviceMark>> mark_to_host() const { return make_mark(functions_, device_.index, out_); }
  Result<std::shared_ptr<const DeviceMark>> mark_from_host() const { return make_mark(functions_, device_.index, in_); }

 private:
  Status order(void* stream, uint64_t token) { return order_after(functions_, device_.index, token, stream); }
  Status copy(void* to, const void* from, size_t bytes, void* stream) {
    if (bytes == 0 || functions_.copy(functions_.context, device_.index, to, from, bytes, stream) == 0) return {};
    return device_error(functions_, device_.index, "copy " + std::to_string(bytes) + " bytes");
  }

  DeviceCall& device_;
  const DeviceFunctions& functions_;
  void* out_ = nullptr;
  void* in_ = nullptr;
  size_t late_ = 0;
};

}  // namespace rueda::core
