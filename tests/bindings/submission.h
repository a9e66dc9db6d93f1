#pragma once
#include <array>
#include <string>
#include <vector>

#include "tests/bindings/operations.h"

namespace rueda::test {

/// One rank's call of some collective.
struct Submission {
  enum class Kind {
    kAllreduce,
    kBroadcast,
    kBarrier,
    kReducescatter,
    kReduce,
    kAllgather,
    kAlltoall,
    kGather,
    kScatter,
    kSend  ///< from the root to rank 0, or 1 where that is the root; other ranks have no part in it
  };
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
  std::vector<int64_t> order = {};  ///< in memory; empty: row-major

  bool reduces() const { return kind == Kind::kAllreduce || kind == Kind::kReducescatter || kind == Kind::kReduce; }
  bool exchanges() const { return kind >= Kind::kAllgather && kind <= Kind::kScatter; }
  bool has_root() const {
    return kind == Kind::kBroadcast || kind == Kind::kReduce || kind == Kind::kGather || kind == Kind::kScatter;
  }
  bool keeps_places() const {
    return kind == Kind::kAllreduce || kind == Kind::kBroadcast || kind == Kind::kReduce || kind == Kind::kSend;
  }
  int receiver() const { return root == 0 ? 1 : 0; }
  /// Whether the rank has a part in it.
  bool concerns(int rank) const { return kind != Kind::kSend || rank == root || rank == receiver(); }
};

inline constexpr std::array kAllKinds = {Submission::Kind::kAllreduce,     Submission::Kind::kBroadcast,
                                         Submission::Kind::kBarrier,       Submission::Kind::kReduce,
                                         Submission::Kind::kReducescatter, Submission::Kind::kAllgather,
                                         Submission::Kind::kAlltoall,      Submission::Kind::kGather,
                                         Submission::Kind::kScatter,       Submission::Kind::kSend};

inline const char* name_of(Submission::Kind kind) {
  static constexpr std::array kNames = {"allreduce", "broadcast", "barrier", "reducescatter", "reduce",
                                        "allgather", "alltoall",  "gather",  "scatter",       "send"};
  return kNames[static_cast<size_t>(kind)];
}

/// Enqueues on `data`, which holds the tensor: what has a result of the same shape puts it there, the rest into memory
/// of the library's. `options` with the submission's codec and scales.
inline int32_t enqueue(rueda_session* session, const Submission& submission, void* data, rueda_op_options options,
                       rueda_handle* handle) {
  CTensor tensor(data, submission.dtype, submission.shape);
  tensor->element_bytes = submission.element_bytes;
  tensor->device = submission.device;
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
    case Submission::Kind::kSend: break;
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
