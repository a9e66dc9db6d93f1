#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/agreement/agreement.h"
#include "runtime/agreement/early_guess.h"
#include "runtime/agreement/relay.h"
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
  /// Returns the first violation, or empty.
  std::string run();
  uint64_t operations() const { return next_ticket_ - 1; }
  /// How many inputs that a rank had shown early a batch took.
  uint64_t came_true() const { return came_true_; }

 private:
  using Frame = std::vector<std::byte>;
  struct Running {
    core::SetId set;  ///< its number
    core::SetId id;
    uint64_t number;
    std::vector<uint64_t> tickets;
    uint64_t trial;
    bool started = false;
  };
  struct Verdicts {
    Frame frame;
    bool rings = true;  ///< wakes a rank that expects nothing
  };
  struct Line {
    uint64_t stamp = 0;
    uint64_t key = 0;
    uint64_t ticket = 0;
  };
  struct Rank {
    std::unique_ptr<core::Participant> participant;
    std::deque<Frame> up;
    std::deque<Verdicts> down;
    std::vector<std::deque<Running>> lanes;
    size_t next_step = 0;
    std::vector<std::string> in_flight;                    ///< names, with their set
    std::map<std::string, std::deque<uint64_t>> receives;  ///< tickets by name: from any rank, and behind such
    size_t pending = 0;
    bool said_goodbye = false;
    bool dirty = false;  ///< the participant has something to send
    core::EarlyGuess guess;
    std::array<Line, 2> lines;
  };
  /// A host of the tree, with what its leader's relay has on its way.
  struct Host {
    std::unique_ptr<core::Relay> relay;
    std::vector<int> below;      ///< hosts; children behind the host's ranks
    std::deque<Frame> up;        ///< at most one, until it is acknowledged
    std::deque<Frame> down;      ///< from the host above
    bool acknowledging = false;  ///< the host above has taken the frame, and the word of it is on its way
    bool dirty = false;          ///< the relay may have something to send up
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
  void skip_levelled(size_t rank);

  // simulation_receives.cc: messages from any rank.
  void number(size_t rank, uint64_t ticket);
  bool hold(size_t rank, uint64_t ticket);
  void release(size_t rank, const std::string& name);
  void bind(size_t rank, const core::SourceEvent& event);
  void drop_receive(size_t rank, uint64_t ticket);
  void check_receives();
  std::set<std::string> receives_without_sender() const;
  core::SetId own_number(size_t rank, core::SetId set) const;
  core::SetId number_in_job(size_t rank, core::SetId own) const;
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
  void check_stalled();

  // simulation_early.cc: inputs shown before the batch is agreed.
  void show_early(size_t rank, uint64_t key, uint64_t ticket);
  void hide_early(size_t rank, uint64_t ticket);
  void check_early(size_t rank, const SeenBatch& seen);

  // simulation_trials.cc: times of batches.
  core::AgreementConfig with_trials(core::AgreementConfig config);
  void report_time(size_t rank, const Running& batch);

  // simulation_tree.cc: frames between hosts.
  void make_tree();
  size_t host_of(size_t rank) const;
  size_t leader_of(size_t host) const { return static_cast<size_t>(job_.tree.hosts[host].front()); }
  bool lives(size_t host) const { return !records_[leader_of(host)].dead; }
  void add_host_actions(size_t host, std::vector<Action>& actions);
  void add_rare_host_actions(size_t host, std::vector<Action>& actions);
  void to_relay(size_t rank, const Frame& frame);
  void send_up(size_t host);
  void host_up(size_t host);
  void acknowledge(size_t host);
  void host_down(size_t host);
  void spread(size_t host);
  void dismiss(size_t host);
  void lose_host(size_t host);
  bool release_held();
  void check_relays();
  bool expects(size_t rank) const;
  bool all_say_goodbye();
  void fail(const std::string& violation);
  void say(size_t rank, const std::string& what) const;

  Job job_;
  Random random_;
  Trace trace_;
  std::map<uint64_t, bool> trials_;  ///< those that rank 0 has made, and whether it has heard of each
  core::Arbiter arbiter_;
  bool plan_due_ = false;
  uint64_t came_true_ = 0;
  int dead_ = -1;
  std::vector<Rank> ranks_;
  std::vector<Host> hosts_;
  std::vector<RankRecord> records_;
  std::map<core::SetId, std::map<std::string, uint64_t>> maximum_;  ///< counters by key, when all had joined last
  std::vector<std::string> levelled_;                               ///< keys, of the events at hand
  uint64_t next_ticket_ = 1;
  uint64_t next_submission_ = 1;
  std::string violation_;
  core::SteadyClock::time_point clock_{std::chrono::seconds(1)};
};

}  // namespace rueda::sim
