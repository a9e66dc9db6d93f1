// The functions of rueda.h that enqueue groups of exchanges and of operations with a root.
#include "bindings/c/submit.h"

namespace rueda::core {
namespace {

/// What all groups have.
struct Tensors {
  size_t count;
  const rueda_tensor* inputs;
  const rueda_tensor* outputs;
  const char* const* names;
};

OperationCall group_call(rueda_session* session, OpKind kind, const Tensors& tensors, const rueda_op_options* options) {
  return as_group(session, {.kind = kind,
                            .count = tensors.count,
                            .inputs = tensors.inputs,
                            .outputs = tensors.outputs,
                            .names = tensors.names,
                            .options = options});
}

OperationCall with_splits(OperationCall call, const int64_t* const* splits) {
  call.splits = splits;
  return call;
}

OperationCall with_root(OperationCall call, int32_t root) {
  call.root = root;
  return call;
}

OperationCall with_op(OperationCall call, int32_t op) {
  call.op = op;
  return call;
}

}  // namespace
}  // namespace rueda::core

namespace core = rueda::core;
using core::OpKind;

int32_t rueda_grouped_allgather_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                      const rueda_tensor* outputs, const char* const* names,
                                      const rueda_op_options* options, rueda_handle* handle) {
  return core::start(session, core::group_call(session, OpKind::kAllgather, {count, inputs, outputs, names}, options),
                     handle);
}

int32_t rueda_grouped_allgather(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                const rueda_tensor* outputs, const char* const* names,
                                const rueda_op_options* options) {
  return core::run(session, core::group_call(session, OpKind::kAllgather, {count, inputs, outputs, names}, options));
}

int32_t rueda_grouped_alltoall_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                     const int64_t* const* splits, const rueda_tensor* outputs,
                                     const char* const* names, const rueda_op_options* options, rueda_handle* handle) {
  return core::start(
      session,
      core::with_splits(core::group_call(session, OpKind::kAlltoall, {count, inputs, outputs, names}, options), splits),
      handle);
}

int32_t rueda_grouped_alltoall(rueda_session* session, size_t count, const rueda_tensor* inputs,
                               const int64_t* const* splits, const rueda_tensor* outputs, const char* const* names,
                               const rueda_op_options* options) {
  return core::run(
      session, core::with_splits(core::group_call(session, OpKind::kAlltoall, {count, inputs, outputs, names}, options),
                                 splits));
}

int32_t rueda_grouped_broadcast_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                      const rueda_tensor* outputs, const char* const* names, int32_t root,
                                      const rueda_op_options* options, rueda_handle* handle) {
  return core::start(
      session,
      core::with_root(core::group_call(session, OpKind::kBroadcast, {count, inputs, outputs, names}, options), root),
      handle);
}

int32_t rueda_grouped_broadcast(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                const rueda_tensor* outputs, const char* const* names, int32_t root,
                                const rueda_op_options* options) {
  return core::run(
      session,
      core::with_root(core::group_call(session, OpKind::kBroadcast, {count, inputs, outputs, names}, options), root));
}

int32_t rueda_grouped_reduce_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                   const rueda_tensor* outputs, const char* const* names, int32_t op, int32_t root,
                                   const rueda_op_options* options, rueda_handle* handle) {
  return core::start(
      session,
      core::with_op(
          core::with_root(core::group_call(session, OpKind::kReduce, {count, inputs, outputs, names}, options), root),
          op),
      handle);
}

int32_t rueda_grouped_reduce(rueda_session* session, size_t count, const rueda_tensor* inputs,
                             const rueda_tensor* outputs, const char* const* names, int32_t op, int32_t root,
                             const rueda_op_options* options) {
  return core::run(
      session,
      core::with_op(
          core::with_root(core::group_call(session, OpKind::kReduce, {count, inputs, outputs, names}, options), root),
          op));
}

int32_t rueda_grouped_gather_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                   const rueda_tensor* outputs, const char* const* names, int32_t root,
                                   const rueda_op_options* options, rueda_handle* handle) {
  return core::start(
      session,
      core::with_root(core::group_call(session, OpKind::kGather, {count, inputs, outputs, names}, options), root),
      handle);
}

int32_t rueda_grouped_gather(rueda_session* session, size_t count, const rueda_tensor* inputs,
                             const rueda_tensor* outputs, const char* const* names, int32_t root,
                             const rueda_op_options* options) {
  return core::run(
      session,
      core::with_root(core::group_call(session, OpKind::kGather, {count, inputs, outputs, names}, options), root));
}

int32_t rueda_grouped_scatter_async(rueda_session* session, size_t count, const rueda_tensor* inputs,
                                    const int64_t* const* splits, const rueda_tensor* outputs, const char* const* names,
                                    int32_t root, const rueda_op_options* options, rueda_handle* handle) {
  return core::start(
      session,
      core::with_splits(
          core::with_root(core::group_call(session, OpKind::kScatter, {count, inputs, outputs, names}, options), root),
          splits),
      handle);
}

int32_t rueda_grouped_scatter(rueda_session* session, size_t count, const rueda_tensor* inputs,
                              const int64_t* const* splits, const rueda_tensor* outputs, const char* const* names,
                              int32_t root, const rueda_op_options* options) {
  return core::run(
      session,
      core::with_splits(
          core::with_root(core::group_call(session, OpKind::kScatter, {count, inputs, outputs, names}, options), root),
          splits));
}
