#pragma once
#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/host_roster.h"
#include "launcher/membership_orders.h"

namespace rueda::core::launcher {

/// When the members are interrupted for a newcomer: when it is ready to join, or as soon as it was started.
enum class Admission { kReady, kDiscovered };

struct MembershipRules {
  int wanted = 1;                              ///< slots that must be there before the first start (-np)
  int least = 1;                               ///< fewer workers form no plan (--min-np)
  int most = std::numeric_limits<int>::max();  ///< (--max-np)
  std::optional<int> resets;                   ///< plans after the first that are allowed (--reset-limit)
  std::chrono::milliseconds rejoin{30000};     ///< for a member to join its plan (--rejoin-timeout)
  std::chrono::milliseconds removal{25000};    ///< for workers of a host that is about to go (--removal-timeout)
  std::chrono::milliseconds capacity{600000};  ///< for slots to come while there are too few (--elastic-timeout)
  Admission admission = Admission::kReady;
  bool discovers = false;  ///< hosts may still come, because a script lists them
  BlacklistRules blacklist;
};

/// How a process ended.
struct WorkerExit {
  std::string how;       ///< "killed by signal 9 (Killed)", "exited with code 0"
  int exit_code = 0;     ///< as a shell shows it; 0 for code 0
  bool goodbye = false;  ///< its last `init` was settled by a `shutdown`, or came to nothing, as far as it can be seen
};

/// Which workers an elastic job has and in which plan they are. A pure state machine without clock or I/O: what
/// happened goes in, orders come out. One thread uses it.
///
/// A worker is a process in a slot of a host for life. Plan N is the list of workers that form world N together. One
/// plan follows another:
///   - a member's death, or a member's request (`asked`), voids the plan, and the next one follows at once if it has
///     `least` workers; else the job waits `capacity` for more and then ends;
///   - a worker that comes later is in no plan until it says that it is ready. The members hear of it; their request
///     brings the plan that it is in. With `Admission::kDiscovered` it is taken for ready from its start. If it then
///     does not come within `rejoin`, the members go on without it, and it is in no plan until it says that it is
///     ready;
///   - the workers of the first start hold the job's state, and so does a later one once it has formed a plan with the
///     others (`formed`). Hosts keep their order, but the worker that has held the state for longest is rank 0. If no
///     worker that holds it is left, the job ends;
///   - once a worker has ended well, the others are awaited, no worker is started any more, and the job succeeds.
class Membership {
 public:
  using Time = std::chrono::milliseconds;  ///< since the job began

  Membership(MembershipRules rules, const std::vector<HostSlots>& hosts, uint64_t seed);

  /// Starts the first workers, or waits until there are `wanted` slots. Nothing is started before.
  void begin();
  /// Moves the clock. Call it before each other event, and at `next_tick`.
  void tick(Time now);
  /// When the next limit runs out, if any does.
  std::optional<Time> next_tick() const;

  /// The worker has begun to form this plan.
  void began(int64_t worker, uint64_t plan);
  /// The worker has formed this plan with all its members, and its program goes on. Only newcomers say so.
  void formed(int64_t worker, uint64_t plan);
  /// The worker has left this plan, by a goodbye or without, and wants the next one; 0: it is new and ready for its
  /// first.
  void asked(int64_t worker, uint64_t plan, VoidPlan::Ground how = VoidPlan::Ground::kRequest);
  /// The worker has said goodbye in this plan: it shuts down, or it is about to ask for the next one.
  void left(int64_t worker, uint64_t plan);
  void exited(int64_t worker, const WorkerExit& exit);
  /// The worker's process could not be started. `exit_code` as of a shell: 127 if there is no such program.
  void not_started(int64_t worker, int exit_code, const std::string& why);
  /// The worker lives but counts as dead: stopped for too long, or so another rank says.
  void evict(int64_t worker, const std::string& cause);
  /// The host and all its workers are gone. `why` is a clause that continues its name.
  void lost(const std::string& host, const std::string& why);
  /// A host that is new in the list, or was lost, answers.
  void reached(const std::string& host);
  /// The host is about to go. Its workers leave with the next plan; those that still run after `removal` are ended.
  /// Their ends by SIGTERM, by SIGKILL or with code 0 are no failures. The loss of the host is none either.
  void preempted(const std::string& host);
  /// The list of hosts now. A new host is used once it is `reached`. Hosts that the list leaves out keep their workers
  /// until the next plan.
  void listed(const std::vector<HostSlots>& hosts);
  /// The user ends the job: from now on no plan and no worker follows, and no end counts as a death.
  void end_by_user(int exit_code);

  /// Returns the orders since the last call, in the order in which they must be carried out.
  std::vector<MembershipOrder> take_orders();
  const Plan& plan() const { return plan_; }
  /// Returns whether the plan is not void.
  bool stands() const { return !void_; }
  const std::vector<WorkerDeath>& deaths() const { return deaths_; }
  /// Without workers that were removed or stopped, or ended because the job did.
  const std::vector<FinishedWorker>& finished() const { return finished_; }
  /// Returns the number of the last plan that any worker has begun to form.
  uint64_t last_begun() const { return last_begun_; }
  /// Returns the workers whose processes have not ended.
  std::vector<int64_t> running() const;
  /// Returns whether a worker that lives has asked for a plan or joined one: before, it may do what it likes.
  bool has_come(int64_t worker) const;
  /// Returns the workers of the current plan that have not joined it.
  std::vector<int64_t> awaited() const;
  /// Returns the workers whose processes have not ended and that are not in the present plan, or not yet.
  std::vector<int64_t> away() const;
  bool over() const { return over_; }
  /// Returns whether the job waits for more slots.
  bool waits() const { return capacity_by_.has_value(); }

 private:
  struct Worker {
    int64_t id = 0;
    std::string host;
    int slot = 0;
    bool alive = true;
    bool ready = false;      // may be put into a plan
    bool has_asked = false;  // it runs its program and has asked for a plan
    bool stopping = false;   // counts as dead; its process is being ended
    bool removed = false;    // is in no further plan
    bool ended_well = false;
    bool ended_unseen = false;            // with code 0 and without an init, which is well if nobody waits for it
    uint64_t joined = 0;                  // the last plan that it began to form
    uint64_t put_off = 0;                 // the plan that ended because it did not come
    std::optional<Time> left_at;          // when it said goodbye, if it has not asked since
    std::optional<uint64_t> holds_since;  // the plan from which on it has the job's state
    std::optional<Time> rejoin_by;
    std::optional<Time> end_by;  // when it is stopped if it was removed and still runs
    bool takes_part() const { return alive && !stopping && !removed; }
    bool has_come() const { return has_asked || joined != 0; }
    bool is_coming() const { return !holds_since && !has_come(); }  // a newcomer that may still import and build
  };

  Worker* find(int64_t worker);
  bool finishing() const;
  void start_first();
  bool gone(const Worker& worker) const;
  bool awaits_requests() const;
  bool was_formed() const;
  void start(const std::string& host, int slot, int rank, int size);
  void fail(Worker& worker, const std::string& cause, int exit_code);
  void void_plan(const Worker& worker, VoidPlan::Ground ground, const std::string& cause);
  void depart(const Worker& worker, const std::string& cause);
  void stop_preempted();
  std::optional<Time> removal_of(const std::vector<int64_t>& next) const;
  void fail_unseen();
  void stop_overdue();
  std::optional<int64_t> put_off_late();
  void go_on_without(int64_t worker);
  std::string late_cause() const;
  void expect_soon(Worker& worker);
  void settle();
  void publish_if_possible();
  void publish(const std::vector<const Worker*>& members);
  std::vector<const Worker*> choose() const;
  void note_changes();
  void fill_slots();
  bool more_may_come() const;
  void end_if_done();
  void remove_waiting();
  void end(int exit_code, std::string sentence);
  void remove_unlisted();
  void remove_dropped(const std::vector<int64_t>& next);
  void remove(Worker& worker);
  void forget_ended();
  int code_of_last_death() const { return deaths_.empty() ? 1 : deaths_.back().exit_code; }

  MembershipRules rules_;
  HostRoster hosts_;
  std::map<int64_t, Worker> workers_;
  Plan plan_;
  bool void_ = true;   // no plan stands
  bool open_ = false;  // `begin` was called
  bool begun_ = false;
  bool any_joined_ = false;  // a worker has begun to form a plan
  bool over_ = false;
  std::string why_;  // why the plan is void
  std::optional<Time> capacity_by_;
  std::vector<int64_t> noticed_;  // the members of the next plan, as the current ones were told
  std::optional<Time> noticed_removal_;
  std::map<std::string, Time> leave_by_;  // by hosts that are about to go
  std::vector<WorkerDeath> deaths_;
  std::vector<FinishedWorker> finished_;
  uint64_t last_begun_ = 0;
  std::vector<MembershipOrder> orders_;
  Time now_{0};
  int64_t next_worker_ = 0;
  int in_vain_ = 0;  // requests one after the other for the next of plans that were not formed
};

}  // namespace rueda::core::launcher
