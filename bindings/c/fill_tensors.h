#pragma once
#include "bindings/c/build_operation.h"

namespace rueda::core {

/// Checks the tensors of a call and fills the operation's tensors from them: requests, slices, and memory of the
/// library's for outputs that have none. `options` have been checked. Returns kInvalidArgument with the tensor and its
/// mistake.
Status fill_tensors(Operation& operation, const Engine& engine, const DeviceTable& devices, const OperationCall& call,
                    const rueda_op_options& options);

}  // namespace rueda::core
