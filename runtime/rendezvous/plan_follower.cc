// One connection with several requests that wait at the same time, each for the next thing of its kind:
//
//   get JOB/plan/N+1     a plan: kept if it is the latest; the plan before it is over
//   get JOB/removed/ID   no further plan has this worker
//   get JOB/change/K+1   a notice
//   get JOB.N/death      the verdict on the plan that this worker is in
//
// hvdrun removes old plans and notices, so a worker that is late may wait for one that is gone. With each such wait it
// therefore asks for their counter as well: answers come in order, so a higher number before the plan or the notice
// means that it is gone.
#include "runtime/rendezvous/plan_follower.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/base/shortage.h"
#include "runtime/base/thread.h"
#include "runtime/net/loop_wait.h"
#include "runtime/store/death.h"
#include "runtime/store/store_connection.h"
#include "runtime/store/store_keys.h"

namespace rueda::core {
namespace {

/// What `pending` says of a removal whose time has come: 0 would mean that there is none.
constexpr double kNow = 0.001;

StoreRequest get_request(std::string key, int64_t milliseconds = -1) {
  return {StoreOperation::kGet, std::move(key), milliseconds, {}};
}

struct Heard {
  MembershipNotice notice;
  SteadyClock::time_point at;
};

}  // namespace

/// What has no lock belongs to the thread.
struct PlanFollower::State {
  State(std::unique_ptr<StoreConnection> opened, const StoreLocation& where, int64_t id,
        std::function<void(const MembershipNotice&)> hears)
      : server(std::move(opened)),
        job(where.job),
        worker(id),
        lost("worker " + std::to_string(id) + " has lost hvdrun's store at " + where.host + ":" +
             std::to_string(where.port)),
        on_notice(std::move(hears)) {}

  const std::unique_ptr<StoreConnection> server;
  const std::string job;
  const int64_t worker;
  const std::string lost;
  const std::function<void(const MembershipNotice&)> on_notice;
  uint64_t awaited = 0;   ///< the plan that is waited for
  uint64_t followed = 0;  ///< the request for the verdict on the plan taken; 0 if none
  int64_t next_notice = 1;
  std::thread thread;

  Mutex mutex;
  Condition changed;
  std::optional<Plan> latest RUEDA_GUARDED_BY(mutex);
  std::optional<int64_t> published RUEDA_GUARDED_BY(mutex);  ///< how many plans there are, once that is known
  bool removed RUEDA_GUARDED_BY(mutex) = false;
  Status over RUEDA_GUARDED_BY(mutex);  ///< why nothing more will come, or ok
  uint64_t taken RUEDA_GUARDED_BY(mutex) = 0;
  std::shared_ptr<Cutoff> cutoff RUEDA_GUARDED_BY(mutex);  ///< of the plan taken; null before the first
  std::vector<Heard> notices RUEDA_GUARDED_BY(mutex);      ///< those that lead to plans not taken
  int64_t heard RUEDA_GUARDED_BY(mutex) = 0;
  int64_t read RUEDA_GUARDED_BY(mutex) = 0;
  UniqueFd bell RUEDA_GUARDED_BY(mutex);

  StorePipe& pipe() { return server->pipe(); }
  void begin() RUEDA_EXCLUDES(mutex);
  void wait_for_plan(uint64_t number);
  void note_published(int64_t plans) RUEDA_EXCLUDES(mutex);
  void fetch_plan(uint64_t number);
  void take_plan(uint64_t number, const StoreReply& reply) RUEDA_EXCLUDES(mutex);
  void wait_for_removal() RUEDA_EXCLUDES(mutex);
  void wait_for_notice();
  void take_notice(const StoreReply& reply) RUEDA_EXCLUDES(mutex);
  bool is_ahead(uint64_t plan) RUEDA_EXCLUDES(mutex);
  void follow(uint64_t number, const std::shared_ptr<Cutoff>& cutoff_of_it);
  bool failed(const StoreReply& reply) RUEDA_EXCLUDES(mutex);
  void end(const Status& why) RUEDA_EXCLUDES(mutex);
  template <typename Step>
  void or_end(Step&& step) RUEDA_EXCLUDES(mutex);
  void signal() RUEDA_REQUIRES(mutex);
  bool fits(Which which) RUEDA_REQUIRES(mutex);
};

void PlanFollower::State::begin() {
  wait_for_plan(1);
  wait_for_removal();
  wait_for_notice();
}

void PlanFollower::State::wait_for_plan(uint64_t number) {
  awaited = number;
  const uint64_t request = pipe().ask(get_request(plan_key(job, number)),
                                      [this, number](const StoreReply& reply) { take_plan(number, reply); });
  if (awaited != number) return;  // the pipe was broken
  pipe().ask({StoreOperation::kAdd, plans_key(job), 0, {}}, [this, number, request](const StoreReply& reply) {
    if (!reply.status.ok()) return;
    note_published(reply.number);
    if (awaited != number || reply.number <= static_cast<int64_t>(number)) return;
    pipe().cancel(request);
    fetch_plan(static_cast<uint64_t>(reply.number));
  });
}

void PlanFollower::State::note_published(int64_t plans) {
  MutexLock lock(mutex);
  published = plans;
  changed.notify_all();
}

/// For a plan that the counter has named. It may be removed by now; then the counter has gone on.
void PlanFollower::State::fetch_plan(uint64_t number) {
  awaited = number;
  pipe().ask(get_request(plan_key(job, number), 0), [this, number](const StoreReply& reply) {
    reply.status.code() == Code::kTimeout ? wait_for_plan(number) : take_plan(number, reply);
  });
}

void PlanFollower::State::take_plan(uint64_t number, const StoreReply& reply) {
  awaited = 0;
  if (failed(reply)) return;
  auto plan = decode_plan(reply.value);
  if (!plan || plan->number != number) {
    return end({Code::kMismatch, "hvdrun's plan " + std::to_string(number) +
                                     " cannot be read: check that hvdrun and this program come from one build"});
  }
  std::shared_ptr<Cutoff> ended;
  {
    MutexLock lock(mutex);
    if (taken < number) ended = cutoff;
    if (ended != nullptr && !ended->raised()) {
      static_cast<void>(ended->raise({Code::kPeerLost, plan->why.empty() ? "a later plan has come" : plan->why}));
    }
    latest = std::move(plan);
    changed.notify_all();
  }
  wait_for_plan(number + 1);
}

void PlanFollower::State::wait_for_removal() {
  pipe().ask(get_request(removed_key(job, worker)), [this](const StoreReply& reply) {
    if (failed(reply)) return;
    MutexLock lock(mutex);
    removed = true;
    changed.notify_all();
  });
}

void PlanFollower::State::wait_for_notice() {
  const int64_t number = next_notice;
  const uint64_t request =
      pipe().ask(get_request(change_key(job, number)), [this](const StoreReply& reply) { take_notice(reply); });
  pipe().ask({StoreOperation::kAdd, changes_key(job), 0, {}}, [this, number, request](const StoreReply& reply) {
    if (next_notice != number || !reply.status.ok() || reply.number <= number) return;
    pipe().cancel(request);
    next_notice = reply.number;  // the last one, which says all that will change
    wait_for_notice();
  });
}

bool PlanFollower::State::is_ahead(uint64_t plan) {
  MutexLock lock(mutex);
  return plan > taken;
}

void PlanFollower::State::take_notice(const StoreReply& reply) {
  if (failed(reply)) return;
  const auto notice = decode_notice(reply.value);
  if (!notice) {
    return end({Code::kMismatch, "hvdrun's notice " + std::to_string(next_notice) +
                                     " cannot be read: check that hvdrun and this program come from one build"});
  }
  // First: once the notice is pending, the worker may leave its plan for it.
  if (on_notice && is_ahead(notice->plan)) on_notice(*notice);
  {
    MutexLock lock(mutex);
    heard = next_notice;
    // A notice says all that will change, so it replaces an earlier one of the same plan; no changes take that back.
    std::erase_if(notices, [&](const Heard& one) { return one.notice.plan == notice->plan; });
    if (notice->plan > taken && notice->changes != 0) notices.push_back({*notice, SteadyClock::now()});
    signal();
  }
  ++next_notice;
  wait_for_notice();
}

void PlanFollower::State::follow(uint64_t number, const std::shared_ptr<Cutoff>& cutoff_of_it) {
  if (followed != 0) pipe().cancel(followed);
  followed =
      pipe().ask(get_request(death_key(planned_job(job, number))), [this, cutoff_of_it](const StoreReply& reply) {
        followed = 0;
        if (failed(reply)) return;
        const auto verdict = decode_death(reply.value);
        if (!verdict) return void(cutoff_of_it->raise({Code::kPeerLost, "the plan is over"}));
        const bool in_order = verdict->kind == DeathKind::kLeft;
        static_cast<void>(cutoff_of_it->raise(verdict->status(), in_order ? Ending::kInOrder : Ending::kAtOnce));
      });
}

/// The answer of a broken connection, or the verdict that ends the whole job.
bool PlanFollower::State::failed(const StoreReply& reply) {
  if (reply.status.ok()) return false;
  const Status& broken = pipe().broken();
  or_end([&] { end(broken.ok() ? reply.status : Status(Code::kSystem, lost + ": " + broken.sentence())); });
  return true;
}

/// A lost store ends no plan: its members may still finish what they do. The end of the job does.
void PlanFollower::State::end(const Status& why) {
  MutexLock lock(mutex);
  if (over.ok()) over = why;
  if (cutoff != nullptr && why.code() == Code::kPeerLost) static_cast<void>(cutoff->raise(why));
  changed.notify_all();
}

/// A step that finds no memory ends all: what it was to ask for would never come.
template <typename Step>
void PlanFollower::State::or_end(Step&& step) {
  try {
    step();
  } catch (const std::exception& error) {
    end(failure_of(error));
  }
}

/// Makes the descriptor say whether a notice is unread.
void PlanFollower::State::signal() {
  if (!bell.valid()) return;
  uint64_t counter = 1;
  if (heard > read) {
    static_cast<void>(!::write(bell.get(), &counter, sizeof counter));
  } else {
    static_cast<void>(!::read(bell.get(), &counter, sizeof counter));
  }
}

PlanFollower::PlanFollower(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<PlanFollower>> PlanFollower::start(const StoreLocation& where, int64_t worker, Deadline deadline,
                                                          std::function<void(const MembershipNotice&)> on_notice) {
  auto server = StoreConnection::open(where, deadline);
  if (!server.ok()) return server.status();
  auto state = std::make_unique<State>(std::move(server).value(), where, worker, std::move(on_notice));
  boost::asio::post(state->server->io(), [raw = state.get()] { raw->or_end([raw] { raw->begin(); }); });
  RUEDA_RETURN_IF_ERROR(start_thread(state->thread, "that hears of plans", [raw = state.get()] {
    ::pthread_setname_np(::pthread_self(), "rueda-member");
    run_loop(raw->server->io(), "membership");
  }));
  return std::unique_ptr<PlanFollower>(new PlanFollower(std::move(state)));
}

PlanFollower::~PlanFollower() {
  stop_loop(state_->server->io());
  state_->thread.join();
}

int64_t PlanFollower::worker() const { return state_->worker; }

Result<Plan> PlanFollower::await_plan(uint64_t after, Deadline deadline) { return await(after, deadline, Which::kOwn); }

Result<Plan> PlanFollower::present(Deadline deadline) { return await(0, deadline, Which::kPresent); }

/// hvdrun keeps the plan before the present one for a while, and that comes first.
bool PlanFollower::State::fits(Which which) {
  if (which == Which::kOwn) return latest->rank_of(worker) >= 0;
  return published && static_cast<int64_t>(latest->number) >= *published;
}

Result<Plan> PlanFollower::await(uint64_t after, Deadline deadline, Which which) {
  State& state = *state_;
  MutexLock lock(state.mutex);
  for (;;) {
    if (state.removed) {
      return Status(Code::kRemoved, "worker " + std::to_string(state.worker) +
                                        " is removed: the job goes on without it; shut down and exit with code 0");
    }
    if (!state.over.ok()) return state.over;
    if (state.latest && state.latest->number > after && state.fits(which)) return *state.latest;
    if (deadline.passed()) {
      return Status(Code::kTimeout, "worker " + std::to_string(state.worker) +
                                        " waited in vain for a plan after plan " + std::to_string(after) +
                                        ": hvdrun may be waiting for enough workers or hosts (--min-np)");
    }
    if (deadline.is_never()) {
      state.changed.wait(state.mutex);
    } else {
      state.changed.wait_until(state.mutex, deadline.when());
    }
  }
}

Result<std::shared_ptr<Cutoff>> PlanFollower::take(uint64_t number) {
  auto made = Cutoff::make();
  if (!made.ok()) return made;
  State& state = *state_;
  {
    MutexLock lock(state.mutex);
    state.taken = number;
    state.cutoff = made.value();
    std::erase_if(state.notices, [number](const Heard& one) { return one.notice.plan <= number; });
    if (state.latest && state.latest->number > number) {
      static_cast<void>(made.value()->raise({Code::kPeerLost, state.latest->why}));
    }
    if (state.over.code() == Code::kPeerLost) static_cast<void>(made.value()->raise(state.over));
  }
  boost::asio::post(state.server->io(),
                    [&state, number, cutoff = made.value()] { state.or_end([&] { state.follow(number, cutoff); }); });
  return made;
}

void PlanFollower::ask(const PlanRequest& request) { tell(reset_key(state_->job, state_->worker), encode(request)); }

void PlanFollower::tell(std::string key, std::string value) {
  boost::asio::post(state_->server->io(), [state = state_.get(), key = std::move(key), value = std::move(value)] {
    state->or_end([&] { state->pipe().ask({StoreOperation::kSet, key, 0, value}, [](const StoreReply&) {}); });
  });
}

PendingPlans PlanFollower::pending() {
  State& state = *state_;
  MutexLock lock(state.mutex);
  PendingPlans pending;
  pending.heard = state.heard;
  for (const Heard& one : state.notices) {
    pending.changes |= one.notice.changes;
    if (one.notice.plan < pending.plan) continue;
    pending.plan = one.notice.plan;
    pending.newcomers = one.notice.newcomers;
    const std::chrono::duration<double> since = SteadyClock::now() - one.at;
    const double left = one.notice.seconds_to_removal - since.count();
    pending.seconds_to_removal = one.notice.seconds_to_removal > 0 ? std::max(left, kNow) : 0;
  }
  state.read = state.heard;
  state.signal();
  return pending;
}

Result<int> PlanFollower::notice_fd() {
  State& state = *state_;
  MutexLock lock(state.mutex);
  if (!state.bell.valid()) {
    state.bell = UniqueFd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!state.bell.valid()) return Status(Code::kSystem, "no descriptor for notices: " + reason_of(errno));
    if (state.heard > state.read) state.signal();
  }
  return state.bell.get();
}

}  // namespace rueda::core
