#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "launcher/membership.h"
#include "tests/sim/random.h"

namespace rueda::sim {

/// One elastic job from its start to its end, drawn from a seed: hosts and rules, workers that join, work, fail, hang
/// and ask for resets, hosts that a list names, drops and names again, that are reached late or lost, and every order
/// in which hvdrun may hear of it. Real is only launcher/membership. The promises that are checked:
///   - plans are numbered 1, 2, 3 ..., and a plan is void before the next one is there, so there are never two worlds;
///   - rank 0 of every world that forms has the job's state, and only those count as having it that may have it;
///   - a plan has --min-np to --max-np workers (fewer only once some have finished), each in a slot of its own;
///   - a worker is interrupted for another only when that one is ready;
///   - workers start only in listed slots of reached hosts that are not about to go, and one that is removed, or whose
///     host is about to go, has its time to end; one that imports is stopped for no other reason;
///   - a worker that ends with its host, as was announced, is no failure;
///   - the job ends, and with success exactly if a worker ended well; else with a sentence whose reason is true.
class MembershipSimulation {
 public:
  using Trace = std::function<void(const std::string&)>;
  MembershipSimulation(uint64_t seed, Trace trace);
  /// Returns the first broken promise, or nothing.
  std::string run();
  uint64_t plans() const { return plans_.size(); }

 private:
  enum class State { kBooting, kSeeking, kJoined, kFormed, kWorking, kEnded };
  struct Process {
    int64_t id = 0;
    std::string host;
    int slot = 0;
    State state = State::kBooting;
    uint64_t plan = 0;       // the one it is in, or was last
    uint64_t told = 0;       // the one that it formed, as hvdrun has heard
    bool has_asked = false;  // for a plan after that
    bool has_state = false;
    bool stuck = false;    // does nothing until it is killed
    bool killed = false;   // by hvdrun, and not dead yet
    bool slow = false;     // imports until no plan waits for it any more
    bool goodbye = false;  // it has shut down, and asked for nothing since
    int steps = 0;
    std::deque<std::function<void()>> news;  // what hvdrun has not heard yet, in order
  };
  using Action = std::function<void()>;

  void say(const std::string& what) const;
  void fail(const std::string& violation);
  std::vector<Action> possible();
  void add_process_actions(Process& process, std::vector<Action>& actions);
  void add_host_actions(std::vector<Action>& actions);
  bool is_listed(const std::string& name) const;
  void add_faults(std::vector<Action>& actions);
  void seek(Process& process);
  void form(Process& process);
  void work(Process& process);
  void check_state(const core::Plan& plan);
  void finish(Process& process);
  void leave_void_plan(Process& process);
  void end_process(Process& process, const core::launcher::WorkerExit& exit);
  void lose_host(const std::string& host);
  void preempt_host(const std::string& host);
  void change_list();
  void carry_out_orders();
  void carry_out(const core::launcher::VoidPlan& order);
  void carry_out(const core::launcher::PublishPlan& order);
  void carry_out(const core::launcher::StartWorker& order);
  void carry_out(const core::launcher::StopWorker& order);
  void carry_out(const core::launcher::RemoveWorker& order);
  void carry_out(const core::launcher::NotifyMembers& order);
  void carry_out(const core::launcher::Tell& order);
  void carry_out(const core::launcher::EndJob& order);
  void check_end(const core::launcher::EndJob& order);
  bool formed(uint64_t plan) const;
  bool lives(int64_t id) const;
  bool is_awaited(int64_t id) const;

  Random random_;
  Trace trace_;
  core::launcher::MembershipRules rules_;
  std::vector<core::launcher::HostSlots> hosts_;
  std::vector<core::launcher::Membership> machine_;  // one; built after the rules are drawn
  std::map<int64_t, Process> processes_;
  std::map<uint64_t, core::Plan> plans_;
  std::map<uint64_t, std::set<int64_t>> joined_;
  std::map<int64_t, uint64_t> held_since_;  // as hvdrun knows
  std::set<uint64_t> void_, formed_;
  std::vector<core::launcher::HostSlots> dropped_;  // were listed once
  std::set<std::string> reached_;
  std::map<std::string, std::chrono::milliseconds> preempted_at_;  // hosts that are about to go
  std::map<int64_t, std::chrono::milliseconds> removed_at_;
  std::set<int64_t> evicted_, removed_, known_holders_, known_ends_, known_ready_;
  std::set<int64_t> leaving_;  // hvdrun knows of their goodbye, and not of the request that follows it
  uint64_t noticed_ = 0;       // the last plan that a notice leads to
  std::chrono::milliseconds now_{0};
  int faults_ = 0;
  int target_ = 0;
  bool well_known_ = false;  // hvdrun has heard of a worker that ended well
  bool left_known_ = false;  // or that one has shut down
  bool joined_any_ = false;  // or that one has begun to form a plan
  bool over_ = false;
  std::string violation_;
};

}  // namespace rueda::sim
