#pragma once
#include "bindings/c/build_operation.h"

namespace rueda::core {

/// Checks the tensors of a call and fills the operation's members from them: requests, places, and memory of the
/// library's for outputs that have none. `options` are checked. kInvalidArgument says which tensor is wrong, and how.
Status fill_tensors(Operation& operation, const Engine& engine, const DeviceTable& devices, const OperationCall& call,
                    const rueda_op_options& options);

}  // namespace rueda::core
