#pragma once
#include <atomic>
#include <memory>
#include <span>

#include "bindings/c/completion_queue.h"
#include "bindings/c/rueda.h"
#include "bindings/c/session.h"
#include "runtime/engine/operation.h"

namespace rueda::core {

/// The arguments of an API function before they are checked. Pointers belong to the caller and are borrowed for the
/// call.
struct OperationCall {
  OpKind kind = OpKind::kAllreduce;
  int32_t op = RUEDA_SUM;
  int32_t root = -1;
  size_t count = 1;                        ///< tensors
  const rueda_tensor* inputs = nullptr;    ///< null for a barrier
  const rueda_tensor* outputs = nullptr;   ///< null: the library's memory, if the kind allows it
  const int64_t* const* splits = nullptr;  ///< rows for each rank, a list for each tensor; null: even
  const char* const* names = nullptr;      ///< a group's
  const rueda_op_options* options = nullptr;
  uint64_t group = 0;  ///< number of the group instance; 0: no group
  /// The session's, for calls that ask to be drained; null: a blocking call.
  const std::shared_ptr<CompletionQueue>* completions = nullptr;
};

inline bool receives_from_any(const OperationCall& call) {
  return call.kind == OpKind::kSend && call.root == RUEDA_ANY_SOURCE;
}

/// The number that callbacks and completion queues get, once the operation has one; 0 before.
using HandleCell = std::shared_ptr<std::atomic<rueda_handle>>;

/// Checks everything that needs no other rank and copies it; afterwards only the data is borrowed. The caller's structs
/// must not change during the call. `cell` is made if the operation has a callback or is drained, and stays null if
/// not. On a device with streams this also sets the mark after which the inputs are ready, on the calling thread.
/// Returns kInvalidArgument with a sentence about the mistake.
Result<std::shared_ptr<Operation>> build_operation(std::shared_ptr<Engine> engine, const DeviceTable& devices,
                                                   const OperationCall& call, HandleCell& cell);

}  // namespace rueda::core
