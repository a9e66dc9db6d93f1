#pragma once
#include <cstddef>
#include <vector>

#include "runtime/engine/lane.h"

namespace rueda::core {

/// Whether the tensor's output is to come from the caller's allocation callback.
bool needs_output(const TensorPart& tensor);

/// Memory for an output has just been given in the order of `stream`: `call`'s work that writes there goes behind what
/// is in that stream now. Does nothing if `call` is null. Returns kSystem if the device fails.
Status mark_late(DeviceCall* call, void* stream);

/// Outputs that the caller's callbacks allocate: each callback is called once, on the lane's thread, just before the
/// batch runs. If a callback has no memory, this rank takes part with a sink, so that its peers succeed, and the tensor
/// carries the failure. Lives while the batch runs; used by the lane's thread.
class LateOutputs {
 public:
  LateOutputs() = default;
  ~LateOutputs();
  LateOutputs(const LateOutputs&) = delete;
  LateOutputs& operator=(const LateOutputs&) = delete;

  /// Fills in the addresses in `batch.storage`. Returns kSystem if there is no memory for a sink either: the batch
  /// cannot run.
  Status place(Batch& batch);

 private:
  std::byte* make_sink(const OperationSpec& spec, size_t bytes);

  struct Sink {
    const OperationSpec* spec;
    void* memory;
    void* stream;  ///< of the device; null on the host
  };
  std::vector<Sink> sinks_;
  const DeviceCall* call_ = nullptr;  ///< of the batch; null for host memory
};

}  // namespace rueda::core
