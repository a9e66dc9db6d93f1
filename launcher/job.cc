#include "launcher/job.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>

#include "launcher/agent_process.h"
#include "launcher/environment.h"
#include "launcher/job_store.h"
#include "launcher/judge.h"
#include "launcher/message_link.h"
#include "launcher/rank_output.h"
#include "launcher/terminal_input.h"
#include "runtime/base/build_id.h"
#include "runtime/base/environment.h"

namespace rueda::core::launcher {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTimeToRaise{3000};  // between the verdict and SIGTERM
constexpr milliseconds kGuardLeaves{10000};
constexpr size_t kMaxBacklog = 256u << 10;  // beyond it hvdrun asks the agent for no more output

/// The signals that hvdrun passes on, but those it was told to ignore (nohup, a shell's background job).
std::vector<int> forwarded_signals() {
  std::vector<int> signals;
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH}) {
    struct sigaction action {};
    if (sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) signals.push_back(number);
  }
  return signals;
}

class Job {
 public:
  Job(const Arguments& arguments, const JobPlan& plan);
  int run();

 private:
  Status prepare();
  void send_order(const std::string& store_address);
  void receive(const Message& message);
  void started(const Message& message);
  void exited(int rank, int wait_status);
  void judge_again();
  void pass_sentence(const Failure& failure);
  void signalled(int signal);
  void guard_exited();
  void link_closed(const Status& why);
  void settle_output();
  void finish_when_over();
  void report();
  void leave_when_printed();
  int size() const { return static_cast<int>(plan_.placements.size()); }

  const Arguments& arguments_;
  const JobPlan& plan_;
  EventLoop loop_;
  RankOutput output_;
  Judge judge_;
  std::unique_ptr<JobStore> store_;
  AgentProcess agent_;
  std::unique_ptr<MessageLink> link_;
  TerminalInput input_;
  std::unique_ptr<SignalWatch> signals_;
  std::unique_ptr<SignalWatch> child_;
  Timer start_timer_;
  Timer end_timer_;
  std::vector<int64_t> pids_;
  int started_ = 0;
  int64_t owed_ = 0;  // output taken that the agent does not know of yet
  int interrupts_ = 0;
  int guard_status_ = 0;
  bool sentenced_ = false;
  bool done_ = false;  // the agent said so
  bool link_open_ = false;
  bool guard_running_ = false;
  bool reported_ = false;
  std::string broken_;  // why the agent is no more, if it did not say that it was done
};

Job::Job(const Arguments& arguments, const JobPlan& plan)
    : arguments_(arguments),
      plan_(plan),
      output_(loop_, static_cast<int>(plan.placements.size()),
              arguments.timestamps ? Timestamps::kOn : Timestamps::kOff, [this] { settle_output(); }),
      judge_(static_cast<int>(plan.placements.size())),
      input_(loop_, STDIN_FILENO,
             [this](std::string piece) {
               link_->send({MessageType::kInput, 0, 0, std::move(piece)});
             }),
      start_timer_(loop_),
      end_timer_(loop_),
      pids_(plan.placements.size(), 0) {}

Status Job::prepare() {
  for (const int ignored : {SIGPIPE, SIGTTIN, SIGTTOU}) ::signal(ignored, SIG_IGN);
  if (!arguments_.output_directory.empty()) RUEDA_RETURN_IF_ERROR(output_.open_files(arguments_.output_directory));
  child_ = std::make_unique<SignalWatch>(loop_, std::vector<int>{SIGCHLD}, [this](int) { guard_exited(); });
  signals_ = std::make_unique<SignalWatch>(loop_, forwarded_signals(), [this](int signal) { signalled(signal); });
  auto agent = start_local_agent();
  if (!agent.ok()) return agent.status();
  agent_ = std::move(agent).value();
  guard_running_ = true;
  auto store = JobStore::start(size(), [this](int rank) {
    loop_.post([this, rank] {
      judge_.began(rank);
      judge_again();
    });
  });
  if (!store.ok()) return store.status();
  store_ = std::move(store).value();
  return {};
}

void Job::send_order(const std::string& store_address) {
  StartOrder order;
  order.build = build_id();
  order.program = plan_.program;
  order.arguments = arguments_.command;
  order.environment = job_environment(process_environment().all(), arguments_.variables, store_->job(), store_address);
  order.key = store_->key();
  order.grace_ms = milliseconds(arguments_.grace).count();
  char* directory = get_current_dir_name();
  order.directory = directory == nullptr ? "." : directory;
  free(directory);
  for (const auto& placement : plan_.placements) order.ranks.push_back({placement.rank, rank_environment(placement)});
  link_->send({MessageType::kStart, -1, 0, encode(order)});
}

int Job::run() {
  if (Status status = prepare(); !status.ok()) {
    fmt::print(stderr, "hvdrun: {}\n", status.sentence());
    return 1;
  }
  UniqueFd other_end(dup(agent_.socket.get()));
  link_ = std::make_unique<MessageLink>(loop_, std::move(agent_.socket), std::move(other_end),
                                        MessageReader::Greeting::kMagicFirst,
                                        MessageLink::Events{[this](const Message& message) { receive(message); },
                                                            [this](const Status& why) { link_closed(why); }});
  link_open_ = true;
  send_order(store_->address());
  const auto limit = std::chrono::duration_cast<milliseconds>(arguments_.start_timeout);
  if (limit.count() > 0)
    start_timer_.start(limit, [this] {
      broken_ =
          fmt::format("only {} of {} ranks started within {} s", started_, size(), arguments_.start_timeout.count());
      link_->send({MessageType::kEnd, -1, 0, {}});
    });
  if (arguments_.verbose) output_.say(fmt::format("job {}, store at {}", store_->job(), store_->address()));
  loop_.run();
  if (!broken_.empty()) return 1;
  return judge_.first_failure() ? judge_.first_failure()->exit_code : 0;
}

void Job::receive(const Message& message) {
  const bool about_rank = message.rank >= 0 && message.rank < size();
  switch (message.type) {
    case MessageType::kStarted: return about_rank ? started(message) : void();
    case MessageType::kNotStarted:
      judge_.not_started(about_rank ? message.rank : 0, message.number == ENOENT ? 127 : 126,
                         fmt::format("not started: {}", message.bytes));
      return judge_again();
    case MessageType::kOutput:
      if (!about_rank || (message.number != 1 && message.number != 2)) return;
      output_.take(message.rank, static_cast<int>(message.number), message.bytes);
      owed_ += static_cast<int64_t>(message.bytes.size());
      return settle_output();
    case MessageType::kInputTaken: return message.number == 0 ? input_.next() : input_.stop();
    case MessageType::kExited: return about_rank ? exited(message.rank, static_cast<int>(message.number)) : void();
    case MessageType::kNote: return output_.say(message.bytes);
    case MessageType::kDone: done_ = true; return;
    default: return;  // hvdrun's own kinds
  }
}

void Job::started(const Message& message) {
  pids_[static_cast<size_t>(message.rank)] = message.number;
  if (arguments_.verbose) output_.say(fmt::format("rank {} is pid {}", message.rank, message.number));
  if (message.rank == 0) input_.next();
  if (++started_ == size()) start_timer_.cancel();
}

void Job::exited(int rank, int wait_status) {
  if (rank == 0) input_.stop();
  if (arguments_.verbose) output_.say(fmt::format("rank {} {}", rank, describe_wait_status(wait_status)));
  if (store_->said_goodbye(rank)) judge_.said_goodbye(rank);
  judge_.exited(rank, wait_status);
  judge_again();
}

void Job::judge_again() {
  if (sentenced_ || !judge_.first_failure()) return;
  sentenced_ = true;
  pass_sentence(*judge_.first_failure());
}

// The store tells every rank at once; who does not end of that gets SIGTERM, and in the end SIGKILL.
void Job::pass_sentence(const Failure& failure) {
  start_timer_.cancel();
  const auto at = static_cast<size_t>(failure.rank);
  const Status told = store_->declare_dead(failure.rank, plan_.placements[at].host, pids_[at], failure.cause);
  if (!told.ok()) output_.say(told.sentence());
  end_timer_.start(kTimeToRaise, [this] {
    link_->send({MessageType::kEnd, -1, milliseconds(arguments_.grace).count(), {}});
  });
}

void Job::signalled(int signal) {
  const bool asks_to_end = signal == SIGINT || signal == SIGTERM;
  if (asks_to_end && ++interrupts_ > 1) {
    link_->send({MessageType::kEnd, -1, 0, {}});
    if (!link_open_) loop_.stop();  // all that is left to do is to print
    return;
  }
  link_->send({MessageType::kSignal, -1, signal, {}});
}

void Job::guard_exited() {
  int status = 0;
  if (!guard_running_ || waitpid(agent_.guard, &status, WNOHANG) != agent_.guard) return;
  guard_running_ = false;
  guard_status_ = status;
  finish_when_over();
}

void Job::link_closed(const Status& why) {
  link_open_ = false;
  if (!done_ && broken_.empty()) broken_ = fmt::format("the agent of this host is gone: {}", why.sentence());
  end_timer_.start(kGuardLeaves, [this] {
    output_.say("the guard of this host did not leave within 10 s");
    guard_running_ = false;
    finish_when_over();
  });
  finish_when_over();
}

void Job::settle_output() {
  if (owed_ > 0 && link_open_ && output_.backlog() < kMaxBacklog) {
    link_->send({MessageType::kTaken, -1, owed_, {}});
    owed_ = 0;
  }
  if (reported_) leave_when_printed();
}

void Job::finish_when_over() {
  if (link_open_ || guard_running_ || reported_) return;
  end_timer_.cancel();
  report();
  reported_ = true;
  leave_when_printed();
}

void Job::report() {
  for (int rank = 0; rank < size(); ++rank) {
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) output_.take(rank, stream, {});
  }
  if (const auto& failure = judge_.first_failure()) {
    const auto at = static_cast<size_t>(failure->rank);
    const auto lines = output_.last_errors(failure->rank);
    output_.say(fmt::format("the first to fail: rank {} (host {}, pid {}) {}", failure->rank, plan_.placements[at].host,
                            pids_[at], failure->cause));
    if (!lines.empty()) output_.say("its last lines on stderr:");
    for (const auto& line : lines) output_.say(fmt::format("  {}", line));
  }
  if (!broken_.empty()) output_.say(broken_);
}

void Job::leave_when_printed() {
  if (output_.empty()) loop_.stop();
}

}  // namespace

int run_job(const Arguments& arguments, const JobPlan& plan) { return Job(arguments, plan).run(); }

}  // namespace rueda::core::launcher
