#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/engine/agreement.h"
#include "tests/sim/program.h"
#include "tests/sim/random.h"
#include "tests/sim/record.h"

namespace rueda::sim {

/// One seeded run of agreement: participants, the arbiter, links that keep order and delay at will, lanes that run
/// batches in order. At every step one of the things that could happen now is picked, so each seed is an interleaving.
class Simulation {
 public:
  using Trace = std::function<void(const std::string& line)>;
  Simulation(uint64_t seed, int ranks, Trace trace);
  /// Empty, or the first violation.
  std::string run();
  uint64_t operations() const { return next_ticket_ - 1; }

 private:
  using Frame = std::vector<std::byte>;
  struct Running {
    core::SetId set;  ///< its number
    core::SetId id;
    uint64_t number;
    std::vector<uint64_t> tickets;
    bool started = false;
  };
  struct Rank {
    std::unique_ptr<core::Participant> participant;
    std::deque<Frame> up;
    std::deque<Frame> down;
    std::vector<std::deque<Running>> lanes;
    size_t next_step = 0;
    std::vector<std::string> in_flight;  ///< names, with their set
    size_t pending = 0;
    bool said_goodbye = false;
    bool dirty = false;  ///< the participant has something to send
  };
  using Action = std::function<void()>;

  std::vector<Action> possible();
  void add_rank_actions(size_t rank, std::vector<Action>& actions);
  void add_rare_actions(size_t rank, std::vector<Action>& actions);
  bool may_step(size_t rank) const;
  void step(size_t rank);
  void submit(size_t rank, Unit unit);
  void join(size_t rank, core::SetId set);
  bool end_join(size_t rank, uint64_t ticket, int last);
  void note_maximum(core::SetId set);
  void flush(size_t rank);
  void deliver_up(size_t rank);
  void deliver_down(size_t rank);
  void plan();
  void goodbye(size_t rank);
  void take_events(size_t rank, uint64_t submitted_from);
  void take_batch(size_t rank, const core::BatchEvent& given);
  void complete(size_t rank, uint64_t ticket, Outcome outcome);
  void release_name(size_t rank, const Ticket& ticket);
  void start(size_t rank, size_t lane);
  void finish_heads();
  bool head_is(size_t rank, core::SetId id, uint64_t number) const;
  bool uses(size_t rank, core::SetId set) const;
  bool abandon_one(size_t rank);
  void die(size_t rank);
  void end(size_t rank);
  bool unstick();
  bool all_say_goodbye();
  void fail(const std::string& violation);
  void say(size_t rank, const std::string& what) const;

  Job job_;
  Random random_;
  Trace trace_;
  core::Arbiter arbiter_;
  bool plan_due_ = false;
  int dead_ = -1;
  std::vector<Rank> ranks_;
  std::vector<RankRecord> records_;
  std::map<core::SetId, std::map<std::string, uint64_t>> maximum_;  ///< counters by key, when all had joined last
  uint64_t next_ticket_ = 1;
  uint64_t next_submission_ = 1;
  std::string violation_;
};

}  // namespace rueda::sim
