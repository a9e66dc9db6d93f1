#include <array>

#include "ops/algorithm.h"
#include "ops/cpu/broadcast_tree.h"
#include "ops/cpu/channel_barrier.h"
#include "ops/cpu/direct.h"
#include "ops/cpu/doubling.h"
#include "ops/cpu/hierarchical.h"
#include "ops/cpu/local.h"
#include "ops/cpu/ring.h"
#include "ops/cpu/shm_barrier.h"
#include "ops/cpu/shm_broadcast.h"
#include "ops/cpu/shm_one_shot.h"
#include "ops/cpu/shm_two_shot.h"

namespace rueda::core {

namespace {

template <Status (*kRun)(const Call&, Mesh&, Deadline)>
Result<StepResult> at_once(const Call& call, Mesh& mesh, StepState&) {
  RUEDA_RETURN_IF_ERROR(kRun(call, mesh, Deadline::never()));
  return StepResult::kDone;
}

constexpr OpKind kReduce = OpKind::kAllreduce;
constexpr OpKind kSpread = OpKind::kBroadcast;
constexpr OpKind kMeet = OpKind::kBarrier;

// name, kind, canonical, fits, plan, run, step. Of several rows that fit, the first of its kind is the default where
// `select.cc` prefers none.
constexpr std::array kRows = {
    Algorithm{"local", kReduce, true, local_fits, local_plan, local_allreduce, at_once<local_allreduce>},
    Algorithm{"shm_two_shot", kReduce, true, shm_two_shot_fits, shm_two_shot_plan, shm_two_shot, nullptr},
    Algorithm{"shm_one_shot", kReduce, true, shm_one_shot_fits, shm_one_shot_plan, shm_one_shot, shm_one_shot_step},
    Algorithm{"direct", kReduce, true, direct_fits, direct_plan, direct, nullptr},
    Algorithm{"ring", kReduce, false, ring_fits, ring_plan, ring, nullptr},
    Algorithm{"doubling", kReduce, false, doubling_fits, doubling_plan, doubling, nullptr},
    Algorithm{"hierarchical", kReduce, true, hierarchical_fits, hierarchical_plan, hierarchical, nullptr},
    Algorithm{"hierarchical_narrow", kReduce, false, hierarchical_narrow_fits, hierarchical_plan, hierarchical_narrow,
              nullptr},
    Algorithm{"local", kSpread, true, local_fits, local_plan, local_broadcast, at_once<local_broadcast>},
    Algorithm{"shm_broadcast", kSpread, true, shm_broadcast_fits, shm_broadcast_plan, shm_broadcast,
              shm_broadcast_step},
    Algorithm{"broadcast_tree", kSpread, true, broadcast_tree_fits, broadcast_tree_plan, broadcast_tree, nullptr},
    Algorithm{"local", kMeet, true, local_fits, local_plan, local_barrier, at_once<local_barrier>},
    Algorithm{"shm_barrier", kMeet, true, shm_barrier_fits, shm_barrier_plan, shm_barrier, shm_barrier_step},
    Algorithm{"channel_barrier", kMeet, true, channel_barrier_fits, channel_barrier_plan, channel_barrier, nullptr},
};

}  // namespace

std::span<const Algorithm> algorithms() { return kRows; }

}  // namespace rueda::core
