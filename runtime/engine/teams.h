#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/agreement/agreement.h"
#include "runtime/engine/baton.h"
#include "runtime/engine/executor.h"
#include "runtime/rendezvous/epoch_plan.h"

namespace rueda::core {

/// A process set as this rank runs it.
struct TeamState {
  Team team;
  SetId id = kGlobalSet;             ///< what rank 0 calls the set
  SetId number = kGlobalSet;         ///< what this rank calls it
  std::string of;                    ///< " of process set ...", as sentences put it; empty for all ranks
  bool lowest = false;               ///< this rank returns the set's credits
  bool with_upstream = false;        ///< the rank to which this one sends its proposals is a member
  std::atomic<uint64_t> started{0};  ///< one more than the number of the latest batch that a lane has begun
  /// Batches that have given their credit back: those begun, and on a device those finished. So launching, which takes
  /// microseconds, does not use up what should pile up and be fused.
  std::atomic<uint64_t> credits{0};
  /// When its latest batch ended: a later one cannot have run before.
  std::atomic<SteadyClock::time_point> ended{SteadyClock::time_point()};
  uint64_t reported RUEDA_GUARDED_BY(baton_holder) = 0;  ///< what agreement was told of `credits`
  /// How the set's latest batch runs, if it has one tensor, from all members: the next one will probably run so, too.
  std::optional<AlgorithmChoice> latest RUEDA_GUARDED_BY(baton_holder);
};

/// The sets of an epoch that this rank belongs to, by the ids that rank 0 gave and by this rank's own numbers. The
/// baton's holder changes and reads them. A batch shares its set's state, because on a rank that has joined the set may
/// be removed while a lane still stands in for this rank.
class Teams {
 public:
  /// `upstream`: as `control_upstream`.
  Teams(int rank, int upstream, const SetMembers& global);
  /// Does nothing if this rank is not a member. `of`: as in TeamState.
  void add(SetId number, const SetMembers& set, std::string of) RUEDA_ON(baton_holder);
  /// From now on no set is found under this number. Does nothing if there is none.
  void remove(SetId number) RUEDA_ON(baton_holder);
  /// Returns the id of a removed set whose last batch here is over, each once.
  std::optional<SetId> take_unused() RUEDA_ON(baton_holder);
  /// Returns null if there is no such set, or this rank is not a member of it.
  std::shared_ptr<TeamState> find(SetId id) RUEDA_ON(baton_holder);
  TeamState* find_number(SetId number) RUEDA_ON(baton_holder);
  /// The sets for which this rank returns credits, by id.
  const std::vector<std::pair<SetId, TeamState*>>& led() const RUEDA_ON(baton_holder) { return led_; }

 private:
  const int rank_;
  const int upstream_;
  std::map<SetId, std::shared_ptr<TeamState>> teams_ RUEDA_GUARDED_BY(baton_holder);
  std::map<SetId, TeamState*> by_number_ RUEDA_GUARDED_BY(baton_holder);
  std::vector<std::pair<SetId, TeamState*>> led_ RUEDA_GUARDED_BY(baton_holder);
  std::vector<std::shared_ptr<TeamState>> removed_ RUEDA_GUARDED_BY(baton_holder);  ///< a batch may still use them
};

/// All ranks of a plan.
SetMembers global_set(const EpochPlan& plan);

}  // namespace rueda::core
