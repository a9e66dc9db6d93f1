#pragma once
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/agreement/agreement.h"
#include "runtime/agreement/relay.h"
#include "runtime/rendezvous/control_tree.h"
#include "tests/sim/random.h"
#include "tests/sim/scale.h"

namespace rueda::sim {

struct ScaleHost {
  std::unique_ptr<core::Relay> relay;
  std::vector<int> locals;
  std::vector<int> below;                   ///< hosts; their relays are children behind the local ranks
  std::deque<std::vector<std::byte>> up;    ///< on their way to the parent: at most one that it has not acknowledged
  std::deque<std::vector<std::byte>> down;  ///< on their way from the parent
  size_t up_bytes = 0;                      ///< of this step
  bool dead = false;                        ///< its leader is
  bool ended = false;
};

struct ScaleRank {
  std::unique_ptr<core::Participant> participant;
  uint64_t next_ticket = 1;
  size_t pending = 0;
  uint64_t order = 0;  ///< a hash of its batches
  std::vector<std::string> errors;
  int last_joined = -1;
};

/// A job of many ranks in one thread. Frames of one link keep their order, and all else is at will.
class Scale {
 public:
  explicit Scale(const ScaleJob& job);
  ScaleReport run();

 private:
  // scale.cc: how frames move.
  void make();
  void submit(int rank, int tensor, int64_t elements);
  void submit_join(int rank);
  void submit_all(const std::vector<int>& who);
  void move_some(size_t messages);
  void settle();
  bool move_one();
  void deliver_up(int host);
  void deliver_down(int host);
  void pump(int host);
  void plan();
  void collect(int rank);
  // scale_story.cc: what happens.
  void start_up();
  void take_step(int step);
  void mismatch();
  void join();
  void death();
  void check_quiet(const std::string& when);
  void violated(const std::string& what);
  ScaleHost& host(int number) { return hosts_[static_cast<size_t>(number)]; }
  ScaleRank& rank(int number) { return ranks_[static_cast<size_t>(number)]; }

  const ScaleJob job_;
  Random random_;
  const std::vector<int> host_of_;
  const core::ControlTree tree_;
  core::AgreementConfig config_;
  core::EpochPlan plan_;  ///< of the rank at hand
  std::unique_ptr<core::Arbiter> arbiter_;
  std::vector<ScaleHost> hosts_;
  std::vector<ScaleRank> ranks_;
  std::vector<std::pair<int, bool>> links_;  ///< with something on its way: the lower host, and whether upward
  size_t root_messages_ = 0;                 ///< of this step
  size_t root_bytes_ = 0;
  bool plan_due_ = false;
  ScaleReport report_;
};

}  // namespace rueda::sim
