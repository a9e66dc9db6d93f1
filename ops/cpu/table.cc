// The table of algorithms: one line for each way to run one kind of operation. Its order matters twice: an index in it
// travels in verdicts, so it is the same on every rank of a build, and the first algorithm of a kind that fits is the
// default, so cheap ones come first (local before shared memory before channels).
#include <array>

#include "ops/algorithm.h"
#include "ops/cpu/adasum.h"
#include "ops/cpu/broadcast_tree.h"
#include "ops/cpu/channel_barrier.h"
#include "ops/cpu/direct.h"
#include "ops/cpu/direct_exchange.h"
#include "ops/cpu/direct_reducescatter.h"
#include "ops/cpu/doubling.h"
#include "ops/cpu/hierarchical.h"
#include "ops/cpu/hierarchical_allgather.h"
#include "ops/cpu/local.h"
#include "ops/cpu/ring.h"
#include "ops/cpu/shm_barrier.h"
#include "ops/cpu/shm_broadcast.h"
#include "ops/cpu/shm_exchange.h"
#include "ops/cpu/shm_one_shot.h"
#include "ops/cpu/shm_reducescatter.h"
#include "ops/cpu/shm_shared.h"
#include "ops/cpu/shm_shared_parts.h"
#include "ops/cpu/shm_shared_rows.h"
#include "ops/cpu/shm_two_shot.h"

namespace rueda::core {

namespace {

/// A local algorithm as a step: it never waits, so it is done at once.
template <Status (*kRun)(const Call&, Mesh&, Deadline)>
Result<StepResult> at_once(const Call& call, Mesh& mesh, StepState&) {
  RUEDA_RETURN_IF_ERROR(kRun(call, mesh, Deadline::never()));
  return StepResult::kDone;
}

using enum OpKind;

constexpr Algorithm local_reduction_algorithm(OpKind kind) {
  return {"local", kind, true, local_fits, local_plan, local_allreduce, at_once<local_allreduce>};
}
constexpr Algorithm shm_reducescatter_algorithm(OpKind kind, const char* name) {
  return {name, kind, true, shm_reducescatter_fits, shm_reducescatter_plan, shm_reducescatter, shm_reducescatter_step};
}
constexpr Algorithm direct_reducescatter_algorithm(OpKind kind, const char* name) {
  return {name, kind, true, direct_reducescatter_fits, direct_reducescatter_plan, direct_reducescatter, nullptr};
}
constexpr Algorithm shared_parts_algorithm(OpKind kind) {
  return {"shm_shared", kind, true, shm_shared_fits, shm_shared_plan, shm_shared_parts, shm_shared_parts_step};
}
constexpr Algorithm shared_rows_algorithm(OpKind kind) {
  return {"shm_shared", kind, true, shm_shared_rows_fits, shm_shared_rows_plan, shm_shared_rows, nullptr};
}
constexpr Algorithm local_exchange_algorithm(OpKind kind) {
  return {"local", kind, true, local_fits, local_plan, local_exchange, at_once<local_exchange>};
}
constexpr Algorithm shm_exchange_algorithm(OpKind kind, const char* name) {
  return {name, kind, true, shm_exchange_fits, shm_exchange_plan, shm_exchange, nullptr};
}
constexpr Algorithm direct_exchange_algorithm(OpKind kind, const char* name) {
  return {name, kind, true, direct_exchange_fits, direct_exchange_plan, direct_exchange, nullptr};
}

// name, kind, canonical, fits, plan, run, step. If several fit, the first of its kind is the default unless `select.cc`
// prefers another.
constexpr std::array kAlgorithms = {
    // All-reduce. `auto` takes two_shot or one_shot on one host, by size, or shm_shared if all tensors lie in shared
    // memory; the two-level ones or doubling between hosts.
    Algorithm{"local", kAllreduce, true, local_fits, local_plan, local_allreduce, at_once<local_allreduce>},
    Algorithm{"shm_two_shot", kAllreduce, true, shm_two_shot_fits, shm_two_shot_plan, shm_two_shot, nullptr},
    Algorithm{.name = "shm_one_shot",
              .kind = kAllreduce,
              .canonical = true,
              .fits = shm_one_shot_fits,
              .plan = shm_one_shot_plan,
              .run = shm_one_shot,
              .step = shm_one_shot_step,
              .show_early = shm_one_shot_show_early},
    Algorithm{"shm_shared", kAllreduce, true, shm_shared_fits, shm_shared_plan, shm_shared, shm_shared_step},
    Algorithm{"direct", kAllreduce, true, direct_fits, direct_plan, direct, nullptr},
    Algorithm{"ring", kAllreduce, false, ring_fits, ring_plan, ring, nullptr},
    Algorithm{"doubling", kAllreduce, false, doubling_fits, doubling_plan, doubling, nullptr},
    Algorithm{"hierarchical", kAllreduce, true, hierarchical_fits, hierarchical_plan, hierarchical, nullptr},
    Algorithm{"hierarchical_narrow", kAllreduce, false, hierarchical_narrow_fits, hierarchical_plan,
              hierarchical_narrow, nullptr},
    // Adaptive sums: an operator of their own, so no setting chooses among them.
    Algorithm{"local_adasum", kAllreduce, true, local_fits, local_plan, local_adasum, at_once<local_adasum>, true},
    Algorithm{"shm_adasum", kAllreduce, true, shm_adasum_fits, shm_adasum_plan, shm_adasum, nullptr, true},
    Algorithm{"direct_adasum", kAllreduce, true, direct_adasum_fits, direct_adasum_plan, direct_adasum, nullptr, true},
    // Operations with a root, and the barrier. A send is a broadcast in a team of two.
    Algorithm{"local", kBroadcast, true, local_fits, local_plan, local_broadcast, at_once<local_broadcast>},
    Algorithm{"shm_broadcast", kBroadcast, true, shm_broadcast_fits, shm_broadcast_plan, shm_broadcast,
              shm_broadcast_step},
    Algorithm{"shm_shared", kBroadcast, true, shm_shared_fits, shm_shared_plan, shm_shared_broadcast,
              shm_shared_broadcast_step},
    Algorithm{"broadcast_tree", kBroadcast, true, broadcast_tree_fits, broadcast_tree_plan, broadcast_tree, nullptr},
    Algorithm{"local", kBarrier, true, local_fits, local_plan, local_barrier, at_once<local_barrier>},
    Algorithm{"shm_barrier", kBarrier, true, shm_barrier_fits, shm_barrier_plan, shm_barrier, shm_barrier_step},
    Algorithm{"channel_barrier", kBarrier, true, channel_barrier_fits, channel_barrier_plan, channel_barrier, nullptr},
    Algorithm{"shm_send", kSend, true, shm_broadcast_fits, shm_broadcast_plan, shm_broadcast, shm_broadcast_step},
    Algorithm{"channel_send", kSend, true, broadcast_tree_fits, broadcast_tree_plan, broadcast_tree, nullptr},
    // Reductions to parts. A reduce is a reduce-scatter in which the root owns everything.
    local_reduction_algorithm(kReducescatter),
    shm_reducescatter_algorithm(kReducescatter, "shm_reducescatter"),
    shared_parts_algorithm(kReducescatter),
    direct_reducescatter_algorithm(kReducescatter, "direct_reducescatter"),
    local_reduction_algorithm(kReduce),
    shm_reducescatter_algorithm(kReduce, "shm_reduce"),
    shared_parts_algorithm(kReduce),
    direct_reducescatter_algorithm(kReduce, "direct_reduce"),
    // Exchanges of rows. They share their code; the kind says which rows go to which members (ops/exchange.h).
    local_exchange_algorithm(kAllgather),
    shm_exchange_algorithm(kAllgather, "shm_allgather"),
    shared_rows_algorithm(kAllgather),
    direct_exchange_algorithm(kAllgather, "direct_allgather"),
    Algorithm{"hierarchical_allgather", kAllgather, true, hierarchical_allgather_fits, shm_exchange_plan,
              hierarchical_allgather, nullptr},
    local_exchange_algorithm(kAlltoall),
    shm_exchange_algorithm(kAlltoall, "shm_alltoall"),
    shared_rows_algorithm(kAlltoall),
    direct_exchange_algorithm(kAlltoall, "direct_alltoall"),
    local_exchange_algorithm(kGather),
    shm_exchange_algorithm(kGather, "shm_gather"),
    shared_rows_algorithm(kGather),
    direct_exchange_algorithm(kGather, "direct_gather"),
    local_exchange_algorithm(kScatter),
    shm_exchange_algorithm(kScatter, "shm_scatter"),
    shared_rows_algorithm(kScatter),
    direct_exchange_algorithm(kScatter, "direct_scatter"),
};

}  // namespace

std::span<const Algorithm> algorithms() { return kAlgorithms; }

}  // namespace rueda::core
