#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/agreement/agreement.h"
#include "runtime/engine/executor.h"
#include "runtime/rendezvous/epoch_plan.h"

namespace rueda::core {

/// A process set as this rank runs it.
struct TeamState {
  Team team;
  SetId id = kGlobalSet;             ///< what rank 0 calls the set
  SetId number = kGlobalSet;         ///< what this rank calls it
  std::string of;                    ///< " of process set ...", as sentences put it; of all ranks: nothing
  bool lowest = false;               ///< this rank returns the set's credits
  bool with_upstream = false;        ///< whoever this rank sends its proposals to is a member
  std::atomic<uint64_t> started{0};  ///< batches begun: written by whoever begins one, in order
  uint64_t reported = 0;             ///< what agreement was told of `started`; the baton's holder
};

/// The sets of an epoch that this rank belongs to, by the ids that rank 0 gave and by this rank's own numbers. Changed
/// and read by the baton's holder; entries stay where they are until they are removed.
class Teams {
 public:
  /// `upstream`: as `control_upstream`.
  Teams(int rank, int upstream, const SetMembers& global);
  /// Nothing happens if this rank is no member. `of`: as in TeamState.
  void add(SetId number, const SetMembers& set, std::string of);
  /// No batch of it is in a lane. Nothing happens if there is no such set.
  void remove(SetId number);
  /// Null if there is no such set, or this rank is no member of it.
  TeamState* find(SetId id);
  TeamState* find_number(SetId number);
  /// The sets whose credits this rank returns, by id.
  const std::vector<std::pair<SetId, TeamState*>>& led() const { return led_; }

 private:
  const int rank_;
  const int upstream_;
  std::map<SetId, std::unique_ptr<TeamState>> teams_;
  std::map<SetId, TeamState*> by_number_;
  std::vector<std::pair<SetId, TeamState*>> led_;
};

/// All ranks of a plan.
SetMembers global_set(const EpochPlan& plan);

}  // namespace rueda::core
