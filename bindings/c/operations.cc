// The functions of rueda.h that enqueue.
#include "bindings/c/last_error.h"
#include "bindings/c/submit.h"

namespace rueda::core {
namespace {

OperationCall reduction_call(OpKind kind, const rueda_tensor* input, const rueda_tensor* output, int32_t op,
                             const rueda_op_options* options) {
  return {.kind = kind, .op = op, .inputs = input, .outputs = output, .options = options};
}

OperationCall broadcast_call(const rueda_tensor* input, const rueda_tensor* output, int32_t root,
                             const rueda_op_options* options) {
  return {.kind = OpKind::kBroadcast, .root = root, .inputs = input, .outputs = output, .options = options};
}

OperationCall barrier_call(const rueda_op_options* options) { return {.kind = OpKind::kBarrier, .options = options}; }

OperationCall grouped_call(rueda_session* session, OpKind kind, size_t count, const rueda_tensor* inputs,
                           const rueda_tensor* outputs, const char* const* names, int32_t op,
                           const rueda_op_options* options) {
  return as_group(session, {.kind = kind,
                            .op = op,
                            .count = count,
                            .inputs = inputs,
                            .outputs = outputs,
                            .names = names,
                            .options = options});
}

}  // namespace
}  // namespace rueda::core

namespace core = rueda::core;

int32_t rueda_allreduce_async(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output, int32_t op,
                              const rueda_op_options* options, rueda_handle* handle) {
  return core::start(session, core::reduction_call(core::OpKind::kAllreduce, input, output, op, options), handle);
}

int32_t rueda_allreduce(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output, int32_t op,
                        const rueda_op_options* options) {
  return core::run(session, core::reduction_call(core::OpKind::kAllreduce, input, output, op, options));
}

int32_t rueda_grouped_allreduce_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                      const rueda_tensor* outputs, const char* const* names, int32_t op,
                                      const rueda_op_options* options, rueda_handle* handle) {
  return core::start(session,
                     core::grouped_call(session, core::OpKind::kAllreduce, count, inputs, outputs, names, op, options),
                     handle);
}

int32_t rueda_grouped_allreduce(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                const rueda_tensor* outputs, const char* const* names, int32_t op,
                                const rueda_op_options* options) {
  return core::run(session,
                   core::grouped_call(session, core::OpKind::kAllreduce, count, inputs, outputs, names, op, options));
}

int32_t rueda_reducescatter_async(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output,
                                  int32_t op, const rueda_op_options* options, rueda_handle* handle) {
  return core::start(session, core::reduction_call(core::OpKind::kReducescatter, input, output, op, options), handle);
}

int32_t rueda_reducescatter(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output, int32_t op,
                            const rueda_op_options* options) {
  return core::run(session, core::reduction_call(core::OpKind::kReducescatter, input, output, op, options));
}

int32_t rueda_grouped_reducescatter_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                          const rueda_tensor* outputs, const char* const* names, int32_t op,
                                          const rueda_op_options* options, rueda_handle* handle) {
  return core::start(
      session, core::grouped_call(session, core::OpKind::kReducescatter, count, inputs, outputs, names, op, options),
      handle);
}

int32_t rueda_grouped_reducescatter(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                    const rueda_tensor* outputs, const char* const* names, int32_t op,
                                    const rueda_op_options* options) {
  return core::run(
      session, core::grouped_call(session, core::OpKind::kReducescatter, count, inputs, outputs, names, op, options));
}

int32_t rueda_broadcast_async(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output,
                              int32_t root, const rueda_op_options* options, rueda_handle* handle) {
  return core::start(session, core::broadcast_call(input, output, root, options), handle);
}

int32_t rueda_broadcast(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output, int32_t root,
                        const rueda_op_options* options) {
  return core::run(session, core::broadcast_call(input, output, root, options));
}

int32_t rueda_join_async(rueda_session* session, const rueda_op_options* options, rueda_handle* handle) {
  return core::start(session, {.kind = core::OpKind::kJoin, .options = options}, handle);
}

int32_t rueda_join(rueda_session* session, const rueda_op_options* options, int32_t* last_rank) {
  if (core::Completer::in_callback()) {
    return core::guarded(
        [] { return core::Status(core::Code::kInvalidArgument, "joining inside a callback is refused"); });
  }
  rueda_handle handle = 0;
  int32_t code = rueda_join_async(session, options, &handle);
  if (code != RUEDA_OK) return code;
  while ((code = rueda_wait(handle, -1)) == RUEDA_INTERRUPTED) {
  }
  if (code == RUEDA_OK && last_rank != nullptr) code = rueda_last_joined(handle, last_rank);
  const core::Status failure(static_cast<core::Code>(code), rueda_last_error());
  static_cast<void>(rueda_release(handle));
  return core::guarded([&] { return code == RUEDA_OK ? core::Status() : failure; });
}

int32_t rueda_barrier_async(rueda_session* session, const rueda_op_options* options, rueda_handle* handle) {
  return core::start(session, core::barrier_call(options), handle);
}

int32_t rueda_barrier(rueda_session* session, const rueda_op_options* options) {
  return core::run(session, core::barrier_call(options));
}
