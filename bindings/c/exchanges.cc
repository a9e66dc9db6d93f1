// The functions of rueda.h that move rows as they are, and the reductions to one rank.
#include "bindings/c/last_error.h"
#include "bindings/c/submit.h"

namespace rueda::core {
namespace {

OperationCall exchange_call(OpKind kind, const rueda_tensor* input, const rueda_tensor* output,
                            const rueda_op_options* options) {
  return {.kind = kind, .inputs = input, .outputs = output, .options = options};
}

OperationCall rooted_call(OpKind kind, const rueda_tensor* input, const rueda_tensor* output, int32_t root,
                          const rueda_op_options* options) {
  return {.kind = kind, .root = root, .inputs = input, .outputs = output, .options = options};
}

/// `splits` is borrowed.
OperationCall with_splits(OperationCall call, const int64_t* const& splits) {
  call.splits = splits != nullptr ? &splits : nullptr;
  return call;
}

OperationCall reduce_call(const rueda_tensor* input, const rueda_tensor* output, int32_t op, int32_t root,
                          const rueda_op_options* options) {
  OperationCall call = rooted_call(OpKind::kReduce, input, output, root, options);
  call.op = op;
  return call;
}

}  // namespace
}  // namespace rueda::core

namespace core = rueda::core;
using core::OpKind;

int32_t rueda_allgather_async(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output,
                              const rueda_op_options* options, rueda_handle* handle) {
  return core::start(session, core::exchange_call(OpKind::kAllgather, input, output, options), handle);
}

int32_t rueda_allgather(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output,
                        const rueda_op_options* options) {
  return core::run(session, core::exchange_call(OpKind::kAllgather, input, output, options));
}

int32_t rueda_alltoall_async(rueda_session* session, const rueda_tensor* input, const int64_t* splits,
                             const rueda_tensor* output, const rueda_op_options* options, rueda_handle* handle) {
  return core::start(session, core::with_splits(core::exchange_call(OpKind::kAlltoall, input, output, options), splits),
                     handle);
}

int32_t rueda_alltoall(rueda_session* session, const rueda_tensor* input, const int64_t* splits,
                       const rueda_tensor* output, const rueda_op_options* options) {
  return core::run(session, core::with_splits(core::exchange_call(OpKind::kAlltoall, input, output, options), splits));
}

int32_t rueda_reduce_async(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output, int32_t op,
                           int32_t root, const rueda_op_options* options, rueda_handle* handle) {
  return core::start(session, core::reduce_call(input, output, op, root, options), handle);
}

int32_t rueda_reduce(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output, int32_t op,
                     int32_t root, const rueda_op_options* options) {
  return core::run(session, core::reduce_call(input, output, op, root, options));
}

int32_t rueda_gather_async(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output, int32_t root,
                           const rueda_op_options* options, rueda_handle* handle) {
  return core::start(session, core::rooted_call(OpKind::kGather, input, output, root, options), handle);
}

int32_t rueda_gather(rueda_session* session, const rueda_tensor* input, const rueda_tensor* output, int32_t root,
                     const rueda_op_options* options) {
  return core::run(session, core::rooted_call(OpKind::kGather, input, output, root, options));
}

int32_t rueda_scatter_async(rueda_session* session, const rueda_tensor* input, const int64_t* splits,
                            const rueda_tensor* output, int32_t root, const rueda_op_options* options,
                            rueda_handle* handle) {
  return core::start(
      session, core::with_splits(core::rooted_call(OpKind::kScatter, input, output, root, options), splits), handle);
}

int32_t rueda_scatter(rueda_session* session, const rueda_tensor* input, const int64_t* splits,
                      const rueda_tensor* output, int32_t root, const rueda_op_options* options) {
  return core::run(session,
                   core::with_splits(core::rooted_call(OpKind::kScatter, input, output, root, options), splits));
}
