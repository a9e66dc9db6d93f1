// The conductor of a job. It owns one object for each concern (hosts, store, judge, output, input, signals) and
// connects them; it decides only what happens next:
//
//   hosts_.start -> all hosts introduced -> begin: open the store -> order_ranks: kStart to every agent
//     -> ranks run: output_ prints, judge_ hears of init, shutdown and exits
//     -> first failure: judge_again -> pass_sentence: the store tells all ranks, 3 s later kEnd to all agents
//     -> every host over -> finish: report, print what is left, leave the loop
//
// The judge names the rank that failed first; `faults_` holds what is not a rank's failure, such as a host that cannot
// be reached. Everything runs on the loop's thread. The store's server has its own, so its callbacks are posted.

#include "launcher/job.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>

#include "launcher/dump_desk.h"
#include "launcher/forwarded_signals.h"
#include "launcher/job_hosts.h"
#include "launcher/job_limits.h"
#include "launcher/job_store.h"
#include "launcher/judge.h"
#include "launcher/rank_output.h"
#include "launcher/run_conductor.h"
#include "launcher/start_order.h"
#include "launcher/stopped_ranks.h"
#include "launcher/store_route.h"
#include "launcher/terminal_input.h"
#include "launcher/wait_status.h"
#include "launcher/ways_to_rank_zero.h"
#include "runtime/base/rank_ranges.h"

namespace rueda::core::launcher {
namespace {

using std::chrono::milliseconds;

constexpr size_t kHostOfRankZero = 0;

class Job {
 public:
  Job(const Arguments& arguments, const JobPlan& plan);
  Status prepare();
  /// Runs the prepared job and returns hvdrun's exit code.
  int run();

 private:
  void watch_start();
  Status begin();
  void order_ranks();
  Status open_store();
  std::vector<int> running_ranks() const;
  int exit_code() const;
  void fail(std::string sentence);
  void receive(size_t host, const Message& message);
  void started(const Message& message);
  void exited(int rank, int wait_status);
  void host_lost(size_t host, const std::string& why);
  void host_done(size_t host);
  void judge_again();
  void pass_sentence(const Failure& failure);
  void end_ranks();
  void signalled(int signal);
  void settle_output();
  void finish();
  void report();
  void leave_when_printed();
  std::string name_of(int rank) const;
  int size() const { return static_cast<int>(plan_.placements.size()); }

  const Arguments& arguments_;
  const JobPlan& plan_;
  EventLoop loop_;
  RankOutput output_;
  Judge judge_;
  std::unique_ptr<JobStore> store_;
  std::unique_ptr<DumpDesk> dump_desk_;
  StoreRoutes routes_;
  JobHosts hosts_;
  WaysToRankZero ways_;
  TerminalInput input_;
  StoppedRanks stops_;
  std::unique_ptr<SignalWatch> signals_;
  Timer start_timer_, end_timer_;
  std::vector<int64_t> pids_;
  int started_ = 0;
  int interrupts_ = 0;  // SIGINTs since the ranks were ordered
  bool asked_to_end_ = false;
  bool begun_ = false;  // every agent was told to start its ranks
  bool sentenced_ = false;
  bool reported_ = false;
  std::vector<std::string> faults_;  // what went wrong and is not a rank's failure
  int fault_code_ = 1;
};

Job::Job(const Arguments& arguments, const JobPlan& plan)
    : arguments_(arguments),
      plan_(plan),
      output_(loop_, static_cast<int>(plan.placements.size()),
              arguments.timestamps ? Timestamps::kOn : Timestamps::kOff, [this] { settle_output(); }),
      judge_(static_cast<int>(plan.placements.size())),
      hosts_(loop_, plan.hosts, plan.silence,
             {[this] {
                if (Status status = begin(); !status.ok()) fail(status.sentence());
              },
              [this](const std::vector<std::string>& sentences) {
                for (const auto& sentence : sentences) fail(sentence);
                hosts_.send_all({MessageType::kEnd, -1, 0, {}});
              },
              [this](size_t host, const Message& message) { receive(host, message); },
              [this](size_t host, const std::string& why) { host_lost(host, why); }, [this] { finish(); },
              [this](const std::string& line) { output_.say(line); }}),
      ways_(
          hosts_, [this](const std::string& line) { output_.say(line); }, [this] { order_ranks(); }),
      input_(loop_, STDIN_FILENO,
             [this](std::string piece) {
               hosts_.send(kHostOfRankZero, {MessageType::kInput, 0, 0, std::move(piece)});
             }),
      stops_(loop_, plan.silence,
             {[this] { return running_ranks(); },
              [this](int rank, const std::string& how) {
                if (!store_->said_goodbye(rank)) judge_.stopped(rank, how);
                judge_again();
              }}),
      start_timer_(loop_),
      end_timer_(loop_),
      pids_(plan.placements.size(), 0) {}

Status Job::prepare() {
  for (const int ignored : {SIGPIPE, SIGTTIN, SIGTTOU}) ::signal(ignored, SIG_IGN);
  if (!arguments_.output_directory.empty()) RUEDA_RETURN_IF_ERROR(output_.open_files(arguments_.output_directory));
  signals_ = std::make_unique<SignalWatch>(loop_, forwarded_signals(), [this](int signal) { signalled(signal); });
  if (arguments_.verbose) hosts_.describe_hosts();
  return hosts_.start(agent_command(arguments_, plan_));
}

int Job::run() {
  watch_start();
  loop_.run();
  const int code = exit_code();
  const std::string lost = output_.lost();
  if (lost.empty()) return code;
  std::fputs(fmt::format("hvdrun: output was lost: {}\n", lost).c_str(), stderr);
  return code == 0 ? kIncomplete : code;
}

/// 0 only if every rank is known to have exited with code 0.
int Job::exit_code() const {
  if (!faults_.empty()) return fault_code_;
  if (const auto& failure = judge_.first_failure()) return failure->exit_code;
  const auto running = running_ranks();
  if (running.empty()) return 0;
  std::fputs(fmt::format("hvdrun: {} of {} ranks have no known exit; the first is {}\n", running.size(), size(),
                         name_of(running.front()))
                 .c_str(),
             stderr);
  return kIncomplete;
}

void Job::watch_start() {
  const auto limit = std::chrono::duration_cast<milliseconds>(arguments_.start_timeout);
  if (limit.count() == 0) return;
  start_timer_.start(limit, [this] {
    if (!hosts_.answered()) return hosts_.end_waiting(arguments_.start_timeout);
    fail(fmt::format("only {} of {} ranks started within {} s", started_, size(), arguments_.start_timeout.count()));
  });
}

/// Ends the job at once (no grace) for a reason that is not a rank's failure.
void Job::fail(std::string sentence) {
  faults_.push_back(std::move(sentence));
  start_timer_.cancel();
  hosts_.send_all({MessageType::kEnd, -1, 0, {}});
}

Status Job::open_store() {
  auto routes = hosts_.store_routes(plan_.interfaces);
  if (!routes.ok()) return routes.status();
  routes_ = std::move(routes).value();
  const auto began = [this](int rank) {
    loop_.post([this, rank] {
      judge_.began(rank);
      judge_again();
    });
  };
  // A host that does not answer is about to be lost, the better reason, so evidence about its ranks is dropped.
  const auto evidence = [this] {
    loop_.post([this] {
      const auto seen = store_->evidence();
      if (seen && hosts_.heard_lately(seen->rank)) judge_.reported(seen->rank, seen->cause);
      judge_again();
    });
  };
  const auto leaves = [this](int rank) { loop_.post([this, rank] { judge_.leaves(rank); }); };
  auto store = JobStore::start(size(), routes_.listen, {began, leaves, evidence});
  if (!store.ok()) return store.status();
  store_ = std::move(store).value();
  dump_desk_ = std::make_unique<DumpDesk>(loop_, *store_, [this] { return DumpDesk::Expected{running_ranks(), {}}; });
  const Status opened = dump_desk_->open();
  if (!opened.ok()) output_.say(fmt::format("hvdrun --dump cannot reach this job: {}", opened.sentence()));
  return {};
}

std::vector<int> Job::running_ranks() const {
  std::vector<int> running;
  for (int rank = 0; rank < size(); ++rank) {
    if (judge_.running(rank)) running.push_back(rank);
  }
  return running;
}

/// Runs once every host has introduced itself. With --verbose the agents first report how they reach rank 0's host.
Status Job::begin() {
  RUEDA_RETURN_IF_ERROR(open_store());
  const bool tells = arguments_.verbose && hosts_.count() > 1;
  tells ? ways_.ask(plan_.interfaces) : order_ranks();
  return {};
}

void Job::order_ranks() {
  if (begun_ || !faults_.empty()) return;
  for (size_t host = 0; host < hosts_.count(); ++host) {
    StartOrder order = start_order(arguments_, plan_, hosts_.host(host), *store_);
    for (const auto& address : routes_.of_host[host]) order.stores.push_back(with_port(address, store_->port()));
    hosts_.send(host, {MessageType::kStart, -1, 0, encode(order)});
  }
  begun_ = true;
  if (arguments_.verbose) {
    std::string addresses;
    for (const auto& address : routes_.listen) addresses += " " + with_port(address, store_->port());
    output_.say(fmt::format("job {}, store at{}", store_->job(), addresses));
  }
}

void Job::receive(size_t host, const Message& message) {
  const bool about_rank = message.rank >= 0 && message.rank < size();
  switch (message.type) {
    case MessageType::kStarted: return about_rank ? started(message) : void();
    case MessageType::kNotStarted:
      judge_.not_started(about_rank ? message.rank : hosts_.host(host).share().ranks.front().rank,
                         message.number == ENOENT ? 127 : 126, fmt::format("was not started: {}", message.bytes));
      return judge_again();
    case MessageType::kOutput:
      if (!about_rank || (message.number != 1 && message.number != 2)) return;
      output_.take(message.rank, static_cast<int>(message.number), message.bytes);
      hosts_.owe(host, static_cast<int64_t>(message.bytes.size()));
      return settle_output();
    case MessageType::kInputTaken: return message.number == 0 ? input_.next() : input_.stop();
    case MessageType::kExited: return about_rank ? exited(message.rank, static_cast<int>(message.number)) : void();
    case MessageType::kStopped:
      return about_rank ? stops_.changed(message.rank, static_cast<int>(message.number)) : void();
    case MessageType::kDone: return host_done(host);
    case MessageType::kListening: return ways_.listening(message);
    case MessageType::kReached: return ways_.reached(host, message);
    case MessageType::kNote: return output_.say(message.bytes);
    case MessageType::kRoute:
      if (arguments_.verbose) output_.say(fmt::format("host {} {}", hosts_.host(host).name(), message.bytes));
      return;
    default: return;  // what HostLink has handled, and kinds that an agent never sends
  }
}

void Job::started(const Message& message) {
  pids_[static_cast<size_t>(message.rank)] = message.number;
  if (arguments_.verbose) output_.say(fmt::format("{} started", name_of(message.rank)));
  if (message.rank == 0) input_.next();
  if (++started_ == size()) start_timer_.cancel();
}

void Job::exited(int rank, int wait_status) {
  if (rank == 0) input_.stop();
  if (arguments_.verbose) output_.say(fmt::format("rank {} {}", rank, describe_wait_status(wait_status)));
  // The rank wrote its goodbye before it exited, so the store has it by now; the judge must know it before the exit.
  if (store_->said_goodbye(rank)) judge_.said_goodbye(rank);
  if (auto failure = store_->failure_before_shutdown(rank)) judge_.shut_down_after(rank, *failure);
  judge_.exited(rank, wait_status);
  judge_again();
}

void Job::host_lost(size_t host, const std::string& why) {
  const auto& share = hosts_.host(host).share();
  output_.say(fmt::format("host {} {}", share.host.name, why));
  const bool any = std::any_of(share.ranks.begin(), share.ranks.end(),
                               [this](const Placement& placement) { return judge_.running(placement.rank); });
  if (!begun_ || !any) return fail(fmt::format("host {} {}", share.host.name, why));
  for (const auto& placement : share.ranks)
    judge_.lost(placement.rank, fmt::format("lost with its host, which {}", why));
  judge_again();
}

// kDone is an agent's last word. A rank whose exit it never reported counts as lost.
void Job::host_done(size_t host) {
  if (!begun_) return;
  for (const auto& placement : hosts_.host(host).share().ranks)
    judge_.lost(placement.rank, "has no known exit: its agent left without reporting one");
  judge_again();
}

void Job::judge_again() {
  if (sentenced_ && stops_.all_of(running_ranks())) return end_ranks();  // they need no time to raise
  if (sentenced_ || !judge_.first_failure()) return;
  sentenced_ = true;
  judge_.were_away(store_->away(size()));
  pass_sentence(*judge_.first_failure());
}

// The store tells every rank at once, so that operations raise. Later come SIGTERM, and after the grace SIGKILL.
void Job::pass_sentence(const Failure& failure) {
  start_timer_.cancel();
  const auto at = static_cast<size_t>(failure.rank);
  const Status told = store_->declare_dead(failure.rank, plan_.placements[at].host, pids_[at], failure.cause);
  if (!told.ok()) output_.say(told.sentence());
  end_timer_.start(kTimeToRaise, [this] { end_ranks(); });
}

void Job::end_ranks() {
  end_timer_.cancel();
  judge_.ending();
  hosts_.send_all({MessageType::kEnd, -1, milliseconds(arguments_.grace).count(), {}});
}

// SIGTERM means that the job must end, within the time that schedulers leave: the agents end the ranks, and a second
// SIGTERM changes nothing. SIGINT may mean less to a rank, as in a debugger or a REPL, so the first goes to the ranks
// and the second ends the job at once. Before ranks are ordered, each signal ends hvdrun, as it would a program that
// handles none.
void Job::signalled(int signal) {
  if (signal == SIGWINCH && !begun_) return;  // ranks will read the window's size when they start
  const bool asks_to_end = signal == SIGINT || signal == SIGTERM;
  if (!begun_) {
    if (!std::exchange(asked_to_end_, true)) fault_code_ = 128 + signal;
    hosts_.drop_unanswered();
    return fail(fmt::format("ended by {} before the ranks started", describe_signal(signal)));
  }
  if (asks_to_end) judge_.ended_by_user(signal);
  const bool again = asks_to_end && std::exchange(asked_to_end_, true);
  if (again && !hosts_.any_open()) return loop_.stop();  // only printing is left, to a slow terminal
  if (signal == SIGTERM) {
    hosts_.send_all({MessageType::kEnd, -1, milliseconds(arguments_.grace).count(), {}});
  } else if (signal == SIGINT && ++interrupts_ > 1) {
    hosts_.send_all({MessageType::kEnd, -1, 0, {}});
  } else {
    hosts_.send_all({MessageType::kSignal, -1, signal, {}});
  }
}

void Job::settle_output() {
  if (output_.backlog() < kMaxBacklog) hosts_.grant();
  if (reported_) leave_when_printed();
}

void Job::finish() {
  for (Timer* const timer : {&start_timer_, &end_timer_}) timer->cancel();
  report();
  reported_ = true;
  leave_when_printed();
}

std::string Job::name_of(int rank) const {
  const auto at = static_cast<size_t>(rank);
  return core::rank_name(rank, plan_.placements[at].host, pids_[at]);
}

void Job::report() {
  output_.close_all();
  if (const auto& failure = judge_.first_failure()) {
    output_.say(describe_failure(*failure, name_of(failure->rank)));
    output_.repeat_last_errors(failure->rank);
  }
  for (const auto& fault : faults_) output_.say(fault);
}

void Job::leave_when_printed() {
  if (output_.empty()) loop_.stop();
}

}  // namespace

int run_job(const Arguments& arguments, const JobPlan& plan) { return run_conductor<Job>(arguments, plan); }

}  // namespace rueda::core::launcher
