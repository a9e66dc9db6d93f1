// The agent of one host: the process that starts the host's ranks, and ends all of them whatever happens.
//
//   hvdrun              agent                                  ranks
//     | <- magic, kHere   |
//     | kPing ----------> |                                              from now on silence counts
//     | kStart ---------> | finds the program and the store
//     | <- kRoute         | fork, exec -----------------------> running
//     | <- kStarted       |
//     | <- kOutput        | <---------------------------- stdout, stderr
//     | kTaken ---------> |                                              the agent may send as much again
//     | <- kStopped       | <------------------------ SIGSTOP, SIGCONT
//     | <- kExited        | <---------------------------------- waitpid
//     | kEnd -----------> | SIGTERM, after the grace SIGKILL -> ends
//     | <- kDone          | no process is left below
//
// In an elastic job kStart brings no ranks: kStartOne and kEndOne start and end single workers, and the agent stays
// until kEnd. There SIGTERM, by which schedulers announce that they take a host away, becomes kPreempted; hvdrun
// decides what follows. In other jobs SIGTERM is ignored.
//
// The agent is a subreaper, so orphans of ranks become its children and "no child" means "no descendant". Each way out
// (kEnd, a lost hvdrun, a lost guard, ranks that all exited) goes through `end`, which can only bring SIGKILL nearer.
// kDone leaves last, after all output, because hvdrun reports the job when every host has said it.

#include "launcher/agent.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>

#include "launcher/descendants.h"
#include "launcher/introduction.h"
#include "launcher/message_link.h"
#include "launcher/output_taps.h"
#include "launcher/program.h"
#include "launcher/rank_input.h"
#include "launcher/rank_process.h"
#include "launcher/store_route.h"
#include "launcher/worker_ends.h"
#include "runtime/base/build_id.h"
#include "runtime/base/deadline.h"
#include "runtime/base/usable_cores.h"
#include "runtime/net/interfaces.h"
#include "runtime/store/store_relay.h"

namespace rueda::core::launcher {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kGraceWithoutParent{2000};  // if hvdrun or the guard is gone, so that all ends within 5 s
constexpr milliseconds kStoreAnswers{3000};
constexpr const char* kRelayAddress = "127.0.0.1";

struct Exit {
  int rank;
  int status;
  // If several ranks are found dead together, a rank that a signal killed is reported before ranks that exited with a
  // code: they probably failed because of it.
  int order() const { return WIFSIGNALED(status) ? 0 : WEXITSTATUS(status) != 0 ? 1 : 2; }
};

class Agent {
 public:
  explicit Agent(UniqueFd guard);
  int run();

 private:
  void receive(const Message& message);
  void listen(const std::string& interfaces);
  void reach(const std::string& addresses);
  void start(const std::string& bytes);
  void start_worker(const std::string& bytes);
  void end_worker(int worker, milliseconds grace);
  Status find_store(StartOrder& order);
  Result<std::string> relay_store(const StartOrder& order, const std::string& store);
  bool start_one(const RankOrder& rank);
  void refuse(int rank, int error, const std::string& sentence);
  void expect_word();
  void guard_gone();
  void forward(int signal);
  void preempted();
  void reap();
  void report(std::vector<Exit> exits);
  bool stays() const { return order_ && order_->stay == AgentStay::kUntilEnd; }
  void end(milliseconds grace);
  void kill_all();
  void leave_if_done();
  bool stuck() const;

  EventLoop loop_;
  MessageLink link_;
  OutputTaps taps_;
  UniqueFd guard_;
  FdWatch guard_gone_;
  SignalWatch child_;
  SignalWatch terminated_;
  Timer kill_timer_;
  Timer silence_timer_;
  milliseconds silence_ = kFirstWord;  // for how long hvdrun may send nothing; 0: for ever
  std::optional<SteadyClock::time_point> kill_at_;
  std::optional<StartOrder> order_;
  std::map<pid_t, int> running_;  // pid -> rank
  WorkerEnds ends_;
  std::map<int, RankInput> inputs_;
  milliseconds grace_{5000};
  std::optional<SteadyClock::time_point> killing_since_;
  bool started_ = false;
  bool childless_ = false;
  bool preempted_ = false;
  bool leaving_ = false;
  std::unique_ptr<StoreRelay> relay_;
  UniqueFd listener_;  // accepts nothing: a connection in its queue has shown that the path is open
};

Agent::Agent(UniqueFd guard)
    : link_(loop_, UniqueFd(STDIN_FILENO), UniqueFd(STDOUT_FILENO), MessageReader::Greeting::kNone,
            {[this](const Message& message) { receive(message); },
             [this](const Status&) {
               taps_.discard();
               end(std::min(grace_, kGraceWithoutParent));
             }}),
      taps_(loop_, [this](const Message& message) { link_.send(message); }),
      guard_(std::move(guard)),
      guard_gone_(loop_, guard_.get(), Interest::kRead),
      child_(loop_, {SIGCHLD}, [this](int) { reap(); }),
      terminated_(loop_, {SIGTERM}, [this](int) { preempted(); }),
      kill_timer_(loop_),
      silence_timer_(loop_),
      ends_(loop_) {
  taps_.on_drained([this] { leave_if_done(); });
  guard_gone_.arm([this] { guard_gone(); });
}

int Agent::run() {
  const auto magic = std::as_bytes(std::span(kAgentMagic));
  link_.send_bytes({magic.begin(), magic.end()});
  link_.send({MessageType::kHere, -1, 0, encode(introduce())});
  expect_word();
  loop_.run();
  return 0;
}

void Agent::receive(const Message& message) {
  if (message.type == MessageType::kPing) silence_ = milliseconds(message.number);
  expect_word();
  switch (message.type) {
    case MessageType::kStart: return start(message.bytes);
    case MessageType::kStartOne: return start_worker(message.bytes);
    case MessageType::kEndOne: return end_worker(message.rank, milliseconds(message.number));
    case MessageType::kInput:
      if (const auto input = inputs_.find(message.rank); input != inputs_.end()) input->second.write(message.bytes);
      return;
    case MessageType::kSignal: return forward(static_cast<int>(message.number));
    case MessageType::kTaken: return taps_.taken(message.number);
    case MessageType::kEnd: return end(milliseconds(message.number));
    case MessageType::kPing: return link_.send({MessageType::kPong, -1, 0, {}});
    case MessageType::kListen: return listen(message.bytes);
    case MessageType::kReach: return reach(message.bytes);
    default: return;  // an agent's own kinds; hvdrun does not send them
  }
}

void Agent::refuse(int rank, int error, const std::string& sentence) {
  link_.send({MessageType::kNotStarted, rank, error, sentence});
  if (rank < 0 || !stays()) end(milliseconds(0));
}

void Agent::start(const std::string& bytes) {
  if (kill_at_) return;  // this agent is ending its host; hvdrun is about to hear of it
  auto order = decode_start_order(bytes);
  started_ = true;
  if (!order) return refuse(-1, EINVAL, "the start order cannot be read");
  const int first = order->ranks.empty() ? -1 : order->ranks.front().rank;
  if (order->build != build_id()) {
    return refuse(first, EINVAL,
                  fmt::format("hvdrun is build {}, but its agent here is build {}: install the same build",
                              order->build, build_id()));
  }
  grace_ = milliseconds(order->grace_ms);
  if (order->program.find('/') == std::string::npos) {  // hvdrun's own host does not have it
    const ProgramFile file = find_program(order->program, search_path_of(order->environment));
    if (file.exit_code != 0) return refuse(first, file.exit_code == 127 ? ENOENT : EACCES, file.sentence);
    order->program = file.path;
  }
  if (const Status found = order->stores.empty() ? Status() : find_store(*order); !found.ok()) {
    return refuse(first, ENETUNREACH, found.sentence());
  }
  // Ranks of one host share its cores, unless the user has chosen a number of threads.
  const auto names_threads = [](const std::string& variable) { return variable.starts_with("OMP_NUM_THREADS="); };
  if (std::none_of(order->environment.begin(), order->environment.end(), names_threads)) {
    const int threads = std::max(1, usable_cores() / std::max(1, order->sharing));
    order->environment.push_back(fmt::format("OMP_NUM_THREADS={}", threads));
  }
  order_ = std::move(order);
  for (const auto& rank : order_->ranks) {
    if (!start_one(rank)) break;
  }
  if (preempted_) preempted();
  reap();
}

void Agent::preempted() {
  preempted_ = true;
  if (stays()) link_.send({MessageType::kPreempted, -1, 0, {}});
}

void Agent::start_worker(const std::string& bytes) {
  if (kill_at_ || !stays()) return;
  const auto worker = decode_rank_order(bytes);
  if (!worker) return refuse(-1, EINVAL, "the order to start a worker cannot be read");
  start_one(*worker);
}

void Agent::end_worker(int worker, milliseconds grace) {
  const auto same = [worker](const auto& entry) { return entry.second == worker; };
  const auto found = std::find_if(running_.begin(), running_.end(), same);
  if (found != running_.end()) ends_.end(worker, found->first, grace);
}

/// Answers even if it cannot listen (port 0 or no address): the other hosts then report that they do not reach this
/// one.
void Agent::listen(const std::string& interfaces) {
  auto addresses = listen_addresses(interfaces);
  std::string all;
  for (const std::string& address : addresses.ok() ? addresses.value() : std::vector<std::string>()) {
    if (address != "127.0.0.1") all += (all.empty() ? "" : " ") + address;
  }
  listener_ = listen_anywhere();
  link_.send({MessageType::kListening, -1, listening_port(listener_), all});
}

void Agent::reach(const std::string& addresses) {
  std::istringstream words(addresses);
  const std::vector<std::string> candidates{std::istream_iterator<std::string>(words), {}};
  const auto path = find_path(candidates, kStoreAnswers, "rank 0's host");
  link_.send({MessageType::kReached, -1, 0,
              path.ok() ? fmt::format("reaches rank 0's host at {} from {}", path.value().to, path.value().from)
                        : path.status().sentence()});
}

Status Agent::find_store(StartOrder& order) {
  const auto store = find_path(order.stores, kStoreAnswers, "hvdrun's store");
  if (!store.ok()) return store.status();
  link_.send({MessageType::kRoute, -1, 0,
              fmt::format("reaches the store at {} from {}", store.value().to, store.value().from)});
  const auto address =
      order.relay_job.empty() ? Result<std::string>(store.value().to) : relay_store(order, store.value().to);
  if (!address.ok()) return address.status();
  order.environment.push_back(fmt::format("RUEDA_STORE_ADDR={}", address.value()));
  return {};
}

/// Connects to the store and serves this host's ranks over that one connection, so that the store has a connection for
/// each host and not for each rank. Returns the address for the ranks.
Result<std::string> Agent::relay_store(const StartOrder& order, const std::string& store) {
  auto where = parse_store_address(store);
  if (!where.ok()) return where.status();
  JobKey& key = where.value().key;
  if (order.key.size() != key.bytes.size())
    return Status(Code::kInvalidArgument,
                  fmt::format("the job's key has {} bytes; it must have {}", order.key.size(), key.bytes.size()));
  std::copy(order.key.begin(), order.key.end(), key.bytes.begin());
  key.present = true;
  where.value().job = order.relay_job;
  auto relay =
      StoreRelay::start(where.value(), {kRelayAddress}, "the agent of this host", Deadline::after(kStoreAnswers));
  if (!relay.ok()) return relay.status();
  relay_ = std::move(relay).value();
  return with_port(kRelayAddress, relay_->port());
}

bool Agent::start_one(const RankOrder& rank) {
  RankProcess process;
  StartFailure failure;
  const InputFrom input = rank.rank == 0 ? InputFrom::kPipe : InputFrom::kNothing;
  if (!start_rank(*order_, rank, input, process, failure)) {
    refuse(rank.rank, failure.error, failure.sentence);
    return false;
  }
  running_.emplace(process.pid, rank.rank);
  taps_.add(rank.rank, STDOUT_FILENO, std::move(process.output));
  taps_.add(rank.rank, STDERR_FILENO, std::move(process.errors));
  if (process.input.valid()) {
    inputs_.try_emplace(rank.rank, loop_, std::move(process.input), [this, number = rank.rank](RankInput::Outcome how) {
      link_.send({MessageType::kInputTaken, number, how == RankInput::Outcome::kTaken ? 0 : -1, {}});
    });
  }
  link_.send({MessageType::kStarted, rank.rank, process.pid, {}});
  return true;
}

// Each message restarts the clock. A host that the network cuts off from hvdrun ends its ranks by itself, because
// hvdrun, which counts it as lost, can no longer tell it to.
void Agent::expect_word() {
  if (silence_.count() == 0) return silence_timer_.cancel();
  silence_timer_.start(silence_, [this] {
    taps_.discard();
    const double seconds = std::chrono::duration<double>(silence_).count();
    link_.send({MessageType::kCutOff, -1, 0, fmt::format("has heard nothing from hvdrun for {} s", seconds)});
    end(std::min(grace_, kGraceWithoutParent));
  });
}

// The agent says this at once. On another host sshd closes our input as soon as its child, the guard, has ended;
// without this message hvdrun would take the ranks that we end now for the cause. The output is still open.
void Agent::guard_gone() {
  link_.send({MessageType::kGuardGone, -1, 0, "has lost its guard, the process hvdrun-guard"});
  end(std::min(grace_, kGraceWithoutParent));
}

// A rank in `running_` is not reaped, so no other process or group can have its number.
void Agent::forward(int signal) {
  for (const auto& [pid, rank] : running_) kill(-pid, signal);
}

void Agent::reap() {
  std::vector<Exit> exits;
  int status = 0;
  pid_t pid = 0;
  while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
    const auto rank = running_.find(pid);
    if (rank == running_.end()) continue;  // an orphan of a rank, which became our child
    if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
      link_.send({MessageType::kStopped, rank->second, WIFSTOPPED(status) ? WSTOPSIG(status) : 0, {}});
      continue;
    }
    exits.push_back({rank->second, status});
    running_.erase(rank);
  }
  childless_ = pid < 0 && errno == ECHILD;
  report(std::move(exits));
  // All ranks have exited but left processes behind.
  if (started_ && running_.empty() && !childless_ && !kill_at_ && !stays()) end(grace_);
  if (killing_since_ && !childless_) kill_all();
  leave_if_done();
}

void Agent::report(std::vector<Exit> exits) {
  std::stable_sort(exits.begin(), exits.end(), [](const Exit& a, const Exit& b) { return a.order() < b.order(); });
  for (const auto& exit : exits) {
    link_.send({MessageType::kExited, exit.rank, exit.status, {}});
    if (!stays() || kill_at_) continue;
    inputs_.erase(exit.rank);
    if (!childless_) ends_.clean_up(exit.rank, grace_);
  }
}

void Agent::end(milliseconds grace) {
  started_ = true;
  const auto at = SteadyClock::now() + grace;
  if (!kill_at_) signal_descendants(SIGTERM);
  if (!kill_at_ || at < *kill_at_) {
    kill_at_ = at;
    kill_timer_.start(grace, [this] { kill_all(); });
  }
  loop_.post([this] { reap(); });  // if no process is left, no SIGCHLD would come
}

// Repeats after each death and every kKillAgain, because a process that forks while we list /proc is found only the
// next time.
void Agent::kill_all() {
  if (!killing_since_) killing_since_ = SteadyClock::now();
  if (childless_ || stuck()) return leave_if_done();
  signal_descendants(SIGKILL);
  kill_timer_.start(kKillAgain, [this] { kill_all(); });
}

bool Agent::stuck() const { return killing_since_ && SteadyClock::now() - *killing_since_ > kGiveUpAfter; }

void Agent::leave_if_done() {
  if (leaving_ || !started_ || (stays() && !kill_at_) || !(childless_ || stuck())) return;
  taps_.writers_gone();
  if (!taps_.drained()) return;  // `on_drained` comes back here
  leaving_ = true;
  if (!childless_)
    link_.send({MessageType::kNote, -1, 0, "some processes still run 10 s after SIGKILL; they are left behind"});
  link_.send({MessageType::kDone, -1, 0, {}});
  link_.when_sent([this] { loop_.stop(); });
}

}  // namespace

int run_agent(UniqueFd guard) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  Agent agent(std::move(guard));
  return agent.run();
}

}  // namespace rueda::core::launcher
