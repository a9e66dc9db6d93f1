// The conductor of an elastic job. As in job.cc it owns one object for each concern and connects them; what happens
// next is decided by membership_:
//
//   hosts_.start -> all hosts introduced -> begin: open the store, kStart without ranks to every agent
//     -> membership_ gives orders -> obey: plans, verdicts and notices into the store, kStartOne and kEndOne to agents
//     -> workers begin, ask, leave, end; hosts are lost; time passes -> membership_ -> obey
//     -> EndJob: kEnd to all agents -> every host over -> finish: report, print what is left, leave the loop
//
// Everything runs on the loop's thread. The store's server has its own, so its callbacks are posted. They may come
// after the news of the worker's exit, which travels another way; so `exited` looks into the store first.

#include "launcher/elastic_job.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <random>
#include <utility>

#include "launcher/elastic_conductor.h"
#include "launcher/forwarded_signals.h"
#include "launcher/job_limits.h"
#include "launcher/run_conductor.h"
#include "launcher/start_order.h"
#include "launcher/wait_status.h"

namespace rueda::core::launcher {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kReadsInput = 0;  // the worker that gets hvdrun's stdin

std::vector<HostSlots> slots_of(const JobPlan& plan) {
  std::vector<HostSlots> hosts;
  for (const HostShare& share : plan.hosts) hosts.push_back(share.host);
  return hosts;
}

// Returns whether the user's signal may have ended it, and not one of its own, such as SIGSEGV.
bool ends_ranks(int wait_status) {
  const int signal = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
  return signal == SIGINT || signal == SIGTERM || signal == SIGKILL;
}

}  // namespace

ElasticJob::ElasticJob(const Arguments& arguments, const JobPlan& plan)
    : arguments_(arguments),
      plan_(plan),
      output_(loop_, 0, arguments.timestamps ? Timestamps::kOn : Timestamps::kOff, [this] { settle_output(); }),
      membership_(*plan.elastic, slots_of(plan), std::random_device{}()),
      hosts_(loop_, plan.hosts, plan.silence,
             {[this] {
                if (Status status = begin(); !status.ok()) fail(status.sentence());
              },
              [this](const std::vector<std::string>& sentences) {
                for (const auto& sentence : sentences) fail(sentence);
              },
              [this](size_t host, const Message& message) { receive(host, message); },
              [this](size_t host, const std::string& why) { host_lost(host, why); },
              [this] {
                hosts_over_ = true;
                finish_when_over();
              },
              [this](const std::string& line) { output_.say(line); }, [this](size_t host) { keeper_->answered(host); },
              [this](size_t host) { keeper_->left(host); }}),
      input_(loop_, STDIN_FILENO,
             [this](std::string piece) {
               hosts_.send(records_.at(kReadsInput).host,
                           {MessageType::kInput, static_cast<int>(kReadsInput), 0, std::move(piece)});
             }),
      stops_(loop_, plan.silence,
             {[this] { return running(); },
              [this](int worker, const std::string& how) {
                if (!membership_.has_come(worker)) return;  // nobody waits for it yet
                stopped_too_long_.insert(worker);
                tell([&] { membership_.evict(worker, how); });
              }}),
      start_timer_(loop_),
      end_timer_(loop_),
      tick_timer_(loop_) {}

Status ElasticJob::prepare() {
  for (const int ignored : {SIGPIPE, SIGTTIN, SIGTTOU}) ::signal(ignored, SIG_IGN);
  if (!arguments_.output_directory.empty()) RUEDA_RETURN_IF_ERROR(output_.open_files(arguments_.output_directory));
  signals_ = std::make_unique<SignalWatch>(loop_, forwarded_signals(), [this](int signal) { signalled(signal); });
  if (arguments_.verbose) hosts_.describe_hosts();
  if (plan_.elastic->discovers) hosts_.expect_more();
  return hosts_.start(agent_command(arguments_, plan_));
}

int ElasticJob::run() {
  if (!plan_.elastic->discovers) watch_start();  // else its first plan may take --elastic-timeout to come
  loop_.run();
  const int code = faults_.empty() ? outcome_.exit_code : std::max(1, outcome_.exit_code);
  const std::string lost = output_.lost();
  if (lost.empty()) return code;
  std::fputs(fmt::format("hvdrun: output was lost: {}\n", lost).c_str(), stderr);
  return code == 0 ? kIncomplete : code;
}

void ElasticJob::watch_start() {
  const auto limit = std::chrono::duration_cast<milliseconds>(arguments_.start_timeout);
  if (limit.count() == 0) return;
  start_timer_.start(limit, [this] {
    if (!hosts_.answered()) return hosts_.end_waiting(arguments_.start_timeout);
    if (membership_.plan().number > 1) return;  // the job has gone on without those that could not start
    fail(fmt::format("only {} of {} workers started within {} s", started_, first_, arguments_.start_timeout.count()));
  });
}

/// Ends the job at once (no grace) for a reason that is not a worker's failure.
void ElasticJob::fail(std::string sentence, int exit_code) {
  faults_.push_back(std::move(sentence));
  start_timer_.cancel();
  if (begun_) tell([&] { membership_.end_by_user(exit_code); });
  end_hosts(milliseconds(0));
}

Status ElasticJob::open_store() {
  auto routes = hosts_.store_routes(plan_.interfaces);
  if (!routes.ok()) return routes.status();
  routes_ = std::move(routes).value();
  // Ranks are those of plans, so the store's own watches, which are for the ranks of one job, watch none.
  auto store = JobStore::start(0, routes_.listen, {[](int) {}, [](int) {}, [] {}});
  if (!store.ok()) return store.status();
  store_ = std::move(store).value();
  const auto post = [this](auto event) { loop_.post([this, event] { tell(event); }); };
  plans_ = std::make_unique<ElasticStore>(
      *store_, ElasticStore::Events{[this, post](int64_t worker, uint64_t plan) {
                                      post([this, worker, plan] { membership_.began(worker, plan); });
                                    },
                                    [this, post](int64_t worker, uint64_t plan) {
                                      post([this, worker, plan] { membership_.formed(worker, plan); });
                                    },
                                    [this, post](int64_t worker, uint64_t plan) {
                                      post([this, worker, plan] { membership_.left(worker, plan); });
                                    },
                                    [this, post](int64_t worker) {
                                      post([this, worker] {
                                        if (const auto asked = plans_->request(worker)) note_request(worker, *asked);
                                      });
                                    },
                                    [this](uint64_t plan) { loop_.post([this, plan] { reported(plan); }); }});
  dump_desk_ = std::make_unique<DumpDesk>(loop_, *store_, [this] {
    const auto away = membership_.away();  // they may have no engine at this moment
    return DumpDesk::Expected{running(), {away.begin(), away.end()}};
  });
  const Status opened = dump_desk_->open();
  if (!opened.ok()) output_.say(fmt::format("hvdrun --dump cannot reach this job: {}", opened.sentence()));
  notice_desk_ = std::make_unique<NoticeDesk>(
      loop_, NoticeDesk::Notices{[this](const std::string& host) { return signal_removal(host); },
                                 [this] { return signal_hosts(); }});
  const Status listens = notice_desk_->open();
  if (!listens.ok()) {
    output_.say(
        fmt::format("hvdrun --signal-removal and --signal-hosts cannot reach this job: {}", listens.sentence()));
  }
  return {};
}

void ElasticJob::note_request(int64_t worker, const PlanRequest& request) {
  using Ground = VoidPlan::Ground;
  membership_.asked(worker, request.after, request.in_order ? Ground::kGoodbye : Ground::kRequest);
}

/// Runs once every host has introduced itself.
Status ElasticJob::begin() {
  RUEDA_RETURN_IF_ERROR(open_store());
  if (!faults_.empty()) return {};
  for (size_t host = 0; host < hosts_.count(); ++host) RUEDA_RETURN_IF_ERROR(order_host(host));
  begun_ = true;
  if (plan_.elastic->discovers) return discover();
  tell([this] { membership_.begin(); });
  return {};
}

std::vector<int> ElasticJob::running() const {
  std::vector<int> all;
  for (const int64_t worker : membership_.running()) all.push_back(static_cast<int>(worker));
  return all;
}

void ElasticJob::receive(size_t host, const Message& message) {
  const bool known = knows(message.rank);
  switch (message.type) {
    case MessageType::kStarted: return known ? started(message) : void();
    case MessageType::kNotStarted:
      // A program that is nowhere would be started in vain again and again.
      if (!known && keeper_ && message.number == ENOENT && membership_.plan().number == 0)
        return fail(fmt::format("host {}: {}", hosts_.host(host).name(), message.bytes), 127);
      if (!known) return host_lost(host, fmt::format("cannot start workers: {}", message.bytes));
      plans_->forget(message.rank);
      return tell([&] { membership_.not_started(message.rank, message.number == ENOENT ? 127 : 126, message.bytes); });
    case MessageType::kOutput:
      if (!known || (message.number != 1 && message.number != 2)) return;
      output_.take(message.rank, static_cast<int>(message.number), message.bytes);
      hosts_.owe(host, static_cast<int64_t>(message.bytes.size()));
      return settle_output();
    case MessageType::kInputTaken: return message.number == 0 ? input_.next() : input_.stop();
    case MessageType::kExited: return known ? exited(message.rank, static_cast<int>(message.number)) : void();
    case MessageType::kStopped: return known ? stops_.changed(message.rank, static_cast<int>(message.number)) : void();
    case MessageType::kDone: return ended_ ? void() : host_lost(host, "has lost its agent, which left early");
    case MessageType::kPreempted: return preempted(host);
    case MessageType::kNote: return output_.say(message.bytes);
    case MessageType::kRoute:
      if (arguments_.verbose) output_.say(fmt::format("host {} {}", hosts_.host(host).name(), message.bytes));
      if (keeper_) keeper_->ready(host);
      return let_go_of_hosts();  // of one that was preempted while it came
    default: return;             // what HostLink has handled, and kinds that an agent never sends
  }
}

void ElasticJob::started(const Message& message) {
  records_.at(message.rank).pid = message.number;
  if (arguments_.verbose) output_.say(fmt::format("{} started", name_of(message.rank)));
  if (message.rank == kReadsInput) input_.next();
  if (++started_ == first_) start_timer_.cancel();
}

void ElasticJob::exited(int64_t worker, int wait_status) {
  if (worker == kReadsInput) input_.stop();
  const WorkerExit exit{describe_wait_status(wait_status), exit_code_of(wait_status), false};
  if (arguments_.verbose) output_.say(fmt::format("{} {}", name_of(worker), exit.how));
  const uint64_t plan = plans_->last_joined(worker);
  tell([&] {
    if (plan != 0) membership_.began(worker, plan);
    if (user_signal_ != 0 && exit.exit_code != 0) membership_.end_by_user(exit.exit_code);
    membership_.exited(worker, {exit.how, exit.exit_code, plan != 0 && plans_->said_goodbye(worker, plan)});
  });
  plans_->forget(worker);
  forget_errors(worker);
  // After the user's signal the first bad end decides the code, as in a job that is not elastic.
  if (user_signal_ != 0 && exit.exit_code != 0 && !std::exchange(code_is_final_, true))
    outcome_.exit_code = ends_ranks(wait_status) ? 128 + user_signal_ : exit.exit_code;
  end_if_raised();
  let_go_of_hosts();
}

/// Lets go of what a worker that has ended wrote last, unless the report is to repeat it: that of the last that failed.
void ElasticJob::forget_errors(int64_t worker) {
  const auto& deaths = membership_.deaths();
  const int64_t last = deaths.empty() ? -1 : deaths.back().worker;
  const int64_t before = std::exchange(last_failed_, last);
  for (const int64_t one : {worker, before}) {
    if (one != last) output_.forget_errors(static_cast<int>(one));
  }
}

void ElasticJob::host_lost(size_t host, const std::string& why) {
  if (keeper_) return keeper_->lost(host, why);
  if (!lost_hosts_.insert(host).second) return;
  const std::string& name = hosts_.host(host).name();
  if (!ended_) output_.say(fmt::format("host {} {}", name, why));
  if (!begun_) return fail(fmt::format("host {} {}", name, why));
  lose(name, why);
}

/// Its workers have ended with it: they ask for nothing any more.
void ElasticJob::lose(const std::string& host, const std::string& why) {
  for (const int64_t worker : membership_.running()) {
    if (records_.at(worker).host_name == host) plans_->forget(worker);
  }
  tell([&] { membership_.lost(host, why); });
}

/// Another rank reports that it counts one as dead that waitpid still shows as running.
void ElasticJob::reported(uint64_t plan) {
  const auto seen = plans_->evidence(plan);
  const Plan& current = membership_.plan();
  if (!seen || plan != current.number || static_cast<size_t>(seen->rank) >= current.workers.size()) return;
  const int64_t worker = current.workers[static_cast<size_t>(seen->rank)].id;
  // A host that does not answer is about to be lost, the better reason.
  if (hosts_.host(records_.at(worker).host).heard_lately()) tell([&] { membership_.evict(worker, seen->cause); });
}

/// Waits no longer once nobody is left that could raise.
void ElasticJob::end_if_raised() {
  const auto left = running();
  if (raising_ && (left.empty() || stops_.all_of(left))) end_workers();
}

void ElasticJob::end_workers() {
  raising_ = false;
  end_timer_.cancel();
  end_hosts(arguments_.grace);
}

void ElasticJob::end_hosts(milliseconds grace) {
  if (discovery_) discovery_->end();
  if (keeper_) keeper_->end();
  hosts_.send_all({MessageType::kEnd, -1, grace.count(), {}});
  hosts_.expect_no_more();
}

// SIGTERM ends the job. The first SIGINT goes to the workers; one that ends because of it ends the job, so none is
// started in its place. The second ends the job at once. Other signals are passed on.
void ElasticJob::signalled(int signal) {
  if (signal == SIGWINCH && !begun_) return;
  const bool asks_to_end = signal == SIGINT || signal == SIGTERM;
  if (!begun_) {
    if (asks_to_end && std::exchange(user_signal_, signal) == 0) outcome_.exit_code = 128 + signal;
    hosts_.drop_unanswered();
    return fail(fmt::format("ended by {} before the workers started", describe_signal(signal)));
  }
  const bool again = asks_to_end && user_signal_ != 0;
  if (asks_to_end && user_signal_ == 0) user_signal_ = signal;
  if (again && !hosts_.any_open()) return loop_.stop();  // only printing is left, to a slow terminal
  const bool nobody = asks_to_end && membership_.running().empty();
  if (signal == SIGTERM || nobody) {
    tell([&] { membership_.end_by_user(nobody ? 128 + signal : 0); });
    end_workers();
  } else if (signal == SIGINT && ++interrupts_ > 1) {
    tell([&] { membership_.end_by_user(128 + signal); });
    end_hosts(milliseconds(0));
  } else {
    hosts_.send_all({MessageType::kSignal, -1, signal, {}});
  }
}

void ElasticJob::settle_output() {
  if (output_.backlog() < kMaxBacklog) hosts_.grant();
  if (reported_ && output_.empty()) loop_.stop();
}

void ElasticJob::finish_when_over() {
  if (hosts_over_ && (!discovery_ || discovery_->over())) finish();
}

void ElasticJob::finish() {
  for (Timer* const timer : {&start_timer_, &end_timer_, &tick_timer_}) timer->cancel();
  report();
  reported_ = true;
  settle_output();
}

std::string ElasticJob::name_of(int64_t worker) const {
  const auto record = records_.find(worker);
  if (record == records_.end()) return fmt::format("worker {}", worker);
  const std::string pid = record->second.pid == 0 ? "" : fmt::format(", pid {}", record->second.pid);
  return fmt::format("worker {} (host {}{})", worker, record->second.host_name, pid);
}

void ElasticJob::report() {
  output_.close_all();
  outcome_.deaths = membership_.deaths();
  outcome_.finished = membership_.finished();
  outcome_.last_begun = membership_.last_begun();
  outcome_.plans = membership_.plan().number;
  outcome_.user_signal = user_signal_;
  outcome_.as_horovod = arguments_.elastic.horovod_defaults;
  for (const auto& line : describe_outcome(outcome_, [this](int64_t worker) { return name_of(worker); }))
    output_.say(line);
  if (outcome_.exit_code != 0 && user_signal_ == 0 && !outcome_.deaths.empty())
    output_.repeat_last_errors(static_cast<int>(outcome_.deaths.back().worker));
  for (const auto& fault : faults_) output_.say(fault);
}

int run_elastic_job(const Arguments& arguments, const JobPlan& plan) {
  return run_conductor<ElasticJob>(arguments, plan);
}

}  // namespace rueda::core::launcher
