#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace rueda::core {

/// How a plan differs from the one before it, as bits.
inline constexpr uint32_t kWorkersRemoved = 1;
inline constexpr uint32_t kWorkersAdded = 2;

/// The most workers that a plan can name.
inline constexpr size_t kMostPlannedWorkers = size_t{1} << 16;

/// A process of an elastic job. Its id is given out once, and host and slot stay the same as long as it lives.
struct PlannedWorker {
  int64_t id = 0;
  std::string host;         ///< the launcher's name for its host
  int32_t slot = 0;         ///< its local rank
  uint8_t holds_state = 0;  ///< 1 if it has formed an earlier plan with the others, so it has the training state
  bool operator==(const PlannedWorker&) const = default;
};

/// The workers of an elastic job from now on, in the order of their ranks. hvdrun writes it under `plan_key`; the
/// workers form epochs from it (`PlanFollower`). A value.
struct Plan {
  uint64_t number = 0;  ///< from 1; each plan has the next number
  std::string why;      ///< the sentence why the plan before it ended; empty for plan 1
  uint32_t changes = 0;
  std::vector<PlannedWorker> workers;
  bool operator==(const Plan&) const = default;

  /// Returns the rank of a worker; -1 if this plan does not have it.
  int rank_of(int64_t id) const;
  /// Returns how many workers are on the host of this rank, itself included.
  int workers_beside(int rank) const;
  /// Returns the plan as it would be with a worker that has come meanwhile: behind the others of its host, or last.
  Plan with(const PlannedWorker& newcomer) const;
};

/// hvdrun's notice that another plan is coming. The present plan stays valid for now, and workers leave it when they
/// like. It replaces an earlier notice of the same plan. hvdrun writes it under `change_key`. A value.
struct MembershipNotice {
  uint64_t plan = 0;              ///< the plan that it leads to, or a later one
  uint32_t changes = 0;           ///< all bits of what will change; 0 takes the earlier notice back
  uint32_t newcomers = 0;         ///< workers that are ready to join
  double seconds_to_removal = 0;  ///< until workers are stopped that the change removes; 0 if nothing is
  bool operator==(const MembershipNotice&) const = default;
};

/// The process sets that the first workers gave to `rueda_init`, in its order. Rank 0 of a plan that has newcomers
/// writes it for them under `sets_key`. A value.
struct PlannedSets {
  std::vector<std::vector<int64_t>> members;  ///< of each set: ids of workers
  bool operator==(const PlannedSets&) const = default;
};

/// A worker's request for the next plan. The worker writes it under `reset_key`. A value.
struct PlanRequest {
  uint64_t after = 0;     ///< the plan that it has left; 0 for a worker that asks for its first
  bool in_order = false;  ///< its engine has left that plan by a goodbye, so the others can end what they run
  bool operator==(const PlanRequest&) const = default;
};

std::string encode(const Plan& plan);
std::string encode(const MembershipNotice& notice);
std::string encode(const PlannedSets& sets);
std::string encode(const PlanRequest& request);
/// Return empty if the bytes are of another kind or break a limit: number 0, an unknown bit of `changes`, no worker or
/// more than kMostPlannedWorkers, a negative or repeated id, a negative slot, a time that is negative or no number.
std::optional<Plan> decode_plan(std::string_view bytes);
std::optional<MembershipNotice> decode_notice(std::string_view bytes);
std::optional<PlannedSets> decode_planned_sets(std::string_view bytes);
std::optional<PlanRequest> decode_request(std::string_view bytes);

}  // namespace rueda::core
