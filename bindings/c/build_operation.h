#pragma once
#include <memory>
#include <span>

#include "bindings/c/completion_queue.h"
#include "bindings/c/rueda.h"
#include "bindings/c/session.h"
#include "runtime/engine/operation.h"

namespace rueda::core {

/// What an API function was asked for, before it is checked. Pointers are the caller's, borrowed for the call.
struct OperationCall {
  OpKind kind = OpKind::kAllreduce;
  int32_t op = RUEDA_SUM;
  int32_t root = -1;
  size_t count = 1;                        ///< tensors
  const rueda_tensor* inputs = nullptr;    ///< null for a barrier
  const rueda_tensor* outputs = nullptr;   ///< null: the library's memory, where the kind allows that
  const int64_t* const* splits = nullptr;  ///< rows for each rank, a list for each tensor; null: even
  const char* const* names = nullptr;      ///< a group's
  const rueda_op_options* options = nullptr;
  uint64_t group = 0;                                      ///< number of the group instance; 0: no group
  std::shared_ptr<CompletionQueue> completions = nullptr;  ///< for calls that ask to be drained; null: a blocking call
};

inline bool receives_from_any(const OperationCall& call) {
  return call.kind == OpKind::kSend && call.root == RUEDA_ANY_SOURCE;
}

/// Checks everything that can be checked without the other ranks and copies it: afterwards only the data is borrowed.
/// `handle` is what the callback will be told, 0: none yet (see `set_handle`). kInvalidArgument says what is wrong.
/// On a device with streams the mark after which the inputs are ready is set here, on the calling thread.
Result<std::shared_ptr<Operation>> build_operation(const std::shared_ptr<Engine>& engine, const DeviceTable& devices,
                                                   const OperationCall& call,
                                                   const std::shared_ptr<std::atomic<rueda_handle>>& handle);

}  // namespace rueda::core
