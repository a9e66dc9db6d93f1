#pragma once
#include <array>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"
#include "tests/bindings/operations.h"

namespace rueda::test {

/// One rank's call of some collective.
struct Submission {
  /// As in the runtime. A send goes from the root to rank 0, or to rank 1 if the root is 0; other ranks have no part in
  /// it.
  using Kind = core::OpKind;
  Kind kind = Kind::kAllreduce;
  int32_t dtype = RUEDA_F32;
  std::vector<int64_t> shape = {4};
  int32_t op = RUEDA_SUM;
  int32_t root = 0;
  int32_t codec = RUEDA_CODEC_NONE;
  double prescale = 1;
  double postscale = 1;
  size_t element_bytes = 0;
  int32_t over = RUEDA_OVER_MEMBERS;
  int32_t device = RUEDA_DEVICE_CPU;
  int32_t device_index = 0;
  std::vector<int64_t> order = {};  ///< in memory; empty: row-major

  bool reduces() const { return core::reduces(kind); }
  bool exchanges() const { return core::exchanges(kind); }
  /// Whether the call names a root. A send says who receives instead.
  bool has_root() const { return core::has_root(kind) && kind != Kind::kSend; }
  bool keeps_positions() const { return core::keeps_positions(kind); }
  int receiver() const { return root == 0 ? 1 : 0; }
  /// Whether the rank has a part in it.
  bool concerns(int rank) const { return kind != Kind::kSend || rank == root || rank == receiver(); }
};

inline constexpr auto kAllKinds = [] {
  std::array<Submission::Kind, core::kOpKindCount> all{};
  for (size_t i = 0; i < all.size(); ++i) all[i] = core::kOpKinds[i].kind;
  return all;
}();

/// Enqueues on `data`, which holds the tensor: what has a result of the same shape puts it there, the rest into memory
/// of the library's. `options` with the submission's codec and scales.
inline int32_t enqueue(rueda_session* session, const Submission& submission, void* data, rueda_op_options options,
                       rueda_handle* handle) {
  CTensor tensor(data, submission.dtype, submission.shape);
  tensor->element_bytes = submission.element_bytes;
  tensor->device = submission.device;
  tensor->device_index = submission.device_index;
  tensor->order = submission.order.empty() ? nullptr : submission.order.data();
  options.codec = submission.codec;
  options.has_scale = 1;
  options.prescale = submission.prescale;
  options.postscale = submission.postscale;
  options.average_over = submission.over;
  const rueda_tensor* const t = tensor.get();
  const int32_t op = submission.op;
  const int32_t root = submission.root;
  switch (submission.kind) {
    case Submission::Kind::kAllreduce: return rueda_allreduce_async(session, t, t, op, &options, handle);
    case Submission::Kind::kBroadcast: return rueda_broadcast_async(session, t, t, root, &options, handle);
    case Submission::Kind::kReducescatter: return rueda_reducescatter_async(session, t, nullptr, op, &options, handle);
    case Submission::Kind::kReduce: return rueda_reduce_async(session, t, t, op, root, &options, handle);
    case Submission::Kind::kAllgather: return rueda_allgather_async(session, t, nullptr, &options, handle);
    case Submission::Kind::kAlltoall: return rueda_alltoall_async(session, t, nullptr, nullptr, &options, handle);
    case Submission::Kind::kGather: return rueda_gather_async(session, t, nullptr, root, &options, handle);
    case Submission::Kind::kScatter: return rueda_scatter_async(session, t, nullptr, nullptr, root, &options, handle);
    case Submission::Kind::kBarrier: return rueda_barrier_async(session, &options, handle);
    case Submission::Kind::kSend:
    case Submission::Kind::kJoin: break;
  }
  if (rueda_rank(session) == root) return rueda_send_async(session, t, submission.receiver(), &options, handle);
  return rueda_recv_async(session, t, root, &options, handle);
}

/// Enqueues under `name` on memory of its own, which has room for 16 elements of 8 bytes, waits and releases.
inline Ending run(rueda_session* session, const Submission& submission, const char* name) {
  std::vector<double> memory(16, 1.0);
  rueda_handle handle = 0;
  expect_code(enqueue(session, submission, memory.data(), named(name), &handle), RUEDA_OK, "enqueue");
  return finish(handle);
}

}  // namespace rueda::test
