#pragma once
#include "bindings/c/build_operation.h"

namespace rueda::core {

/// Enqueues an operation and returns an error code of rueda.h. `*handle` is 0 unless it was accepted.
int32_t start(rueda_session* session, const OperationCall& call, rueda_handle* handle);
/// Enqueues and waits: the blocking form. Refused inside a callback, and if the library would own an output.
int32_t run(rueda_session* session, const OperationCall& call);
/// Returns the call with the number of a new group.
OperationCall as_group(rueda_session* session, OperationCall call);

}  // namespace rueda::core
