// Runs the user's script in an agent of its own, because an agent is made for programs of others: it reads their output
// with a bound, reports their ends, kills what they leave behind, and ends with hvdrun whatever happens. A run is a
// worker of that agent, with the number of the run:
//
//   start -> the agent introduces itself -> kStart -> kStartOne -> kOutput ... kExited, both streams ended -> judge
//                                                        ^                                                      |
//                                                        +--- 1 s after it began, later after failures, --------+
//                                                             sooner if the job waits for hosts,
//                                                             and at once if run_now was called
//
// The list is needed once at the start, so a first run that fails ends the job. Later a script may fail for a while, as
// when a scheduler restarts, and the job goes on with the hosts that it knows.

#include "launcher/host_discovery.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <map>
#include <utility>

#include "launcher/messages.h"
#include "launcher/program.h"
#include "launcher/wait_status.h"
#include "runtime/base/build_id.h"
#include "runtime/base/environment.h"
#include "runtime/base/printable.h"

namespace rueda::core::launcher {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBetween{100};  // at least, behind a run that takes long; a shorter interval makes it shorter
constexpr milliseconds kNewAgent{1000};
constexpr milliseconds kDies{10000};  // after SIGKILL
constexpr milliseconds kLongestBackOff{30000};
constexpr milliseconds kMostHaste{60000};  // then more runs would hardly find a host sooner, and may cost their owner
constexpr int kMostDoublingsOfBackOff = 5;
constexpr size_t kMostErrors = 4096;  // bytes of its stderr; the last line is quoted

std::string last_line(std::string_view text) {
  text = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
  const size_t before = text.find_last_of("\r\n");
  return printable(text.substr(before == std::string_view::npos ? 0 : before + 1).substr(0, kMaxQuote));
}

/// A name of a file may hold blanks, so it is not read by the shell; the shell runs it even without a first line `#!`.
std::vector<std::string> words_for(const std::string& command) {
  const ProgramFile file = find_program(command, "");
  if (file.exit_code == 0) return {"sh", "-c", "exec \"$0\"", file.path};
  return {"sh", "-c", command};
}

}  // namespace

milliseconds rest_after_success(milliseconds every, milliseconds took) {
  return std::max(every - took, std::min(every, kBetween));
}

milliseconds interval_in_need(milliseconds every, milliseconds took) {
  return std::min(every, std::max(every / 4, 2 * took));
}

milliseconds rest_after_failures(milliseconds every, int failures) {
  const int doublings = std::min(failures - 1, kMostDoublingsOfBackOff);
  return std::min(every * (1 << doublings), std::max(every, kLongestBackOff));
}

HostDiscovery::HostDiscovery(EventLoop& loop, Script script, Events events)
    : loop_(loop), script_(std::move(script)), events_(std::move(events)), timer_(loop) {}

Status HostDiscovery::start() {
  child_ = std::make_unique<SignalWatch>(loop_, std::vector<int>{SIGCHLD}, [this](int) {
    if (agent_) agent_->reap();
  });
  return start_agent();
}

Status HostDiscovery::start_agent() {
  HostLink::Events events;
  events.introduced = [this] { order(); };
  events.message = [this](const Message& message) { receive(message); };
  events.lost = [this](const std::string& why) { fail(fmt::format("the process that runs it {}", why)); };
  events.over = [this] { agent_over(); };
  events.said = [](std::string_view) {};
  agent_ = std::make_unique<HostLink>(loop_, HostShare{{"localhost"}, true, {}}, milliseconds(0), std::move(events));
  return agent_->start({}, {});
}

void HostDiscovery::order() {
  if (ending_) return;
  StartOrder order;
  order.build = build_id();
  order.directory = script_.directory;
  order.program = "/bin/sh";
  order.arguments = words_for(script_.command);
  std::map<std::string, std::string> variables = process_environment().all();
  variables.erase("RUEDA_WORKER_ID");  // hvdrun itself may be below a worker of another job
  for (const auto& [name, value] : variables) order.environment.push_back(fmt::format("{}={}", name, value));
  order.key = std::string(32, '\0');  // the script is not a rank and gets no key
  order.grace_ms = 0;
  order.stay = AgentStay::kUntilEnd;
  agent_->send({MessageType::kStart, -1, 0, encode(order)});
  run();
}

void HostDiscovery::run_again(milliseconds after) {
  resting_ = true;
  timer_.start(asked_ ? milliseconds(0) : after, [this] { run(); });
}

/// A run that is on its way may have read the list before it changed, so another one follows it.
void HostDiscovery::run_now() {
  asked_ = true;
  if (resting_) run_again(milliseconds(0));
}

void HostDiscovery::need(bool more) {
  if (more == in_need_since_.has_value()) return;
  in_need_since_.reset();
  if (!more) return;
  in_need_since_ = SteadyClock::now();
  run_now();
}

void HostDiscovery::run() {
  resting_ = false;
  asked_ = false;
  if (ending_) return;
  ++runs_;
  run_ = Run{};
  run_->began = SteadyClock::now();
  // By this variable the agent finds what belongs to the run.
  const RankOrder order{runs_, {fmt::format("RUEDA_WORKER_ID={}", runs_)}};
  agent_->send({MessageType::kStartOne, runs_, 0, encode(order)});
  timer_.start(script_.limit, [this] {
    stop_run(fmt::format("it did not end within {} s", std::chrono::duration<double>(script_.limit).count()));
  });
}

void HostDiscovery::receive(const Message& message) {
  if (message.type == MessageType::kOutput) {
    agent_->owe(static_cast<int64_t>(message.bytes.size()));
    agent_->grant();
  }
  if (!run_ || ending_) return;
  if (message.type == MessageType::kNotStarted) {
    run_.reset();
    return fail(fmt::format("it was not started: {}", message.bytes));
  }
  if (message.rank != runs_) return;  // of an earlier run, which has ended
  if (message.type == MessageType::kOutput) take(message);
  if (message.type == MessageType::kExited) run_->wait_status = static_cast<int>(message.number);
  if (run_->wait_status && run_->open_streams == 0) judge();
}

void HostDiscovery::take(const Message& message) {
  if (message.bytes.empty()) {
    --run_->open_streams;
  } else if (message.number == 1) {
    if (run_->output.size() + message.bytes.size() > kMostDiscovered) {
      return stop_run(fmt::format("it printed more than {} bytes", kMostDiscovered));
    }
    run_->output += message.bytes;
  } else {
    run_->errors += message.bytes;
    if (run_->errors.size() > kMostErrors) run_->errors.erase(0, run_->errors.size() - kMostErrors);
  }
}

/// Ends a run that breaks a limit. Its end is judged as that of others. A process that even SIGKILL does not end, as
/// within a file system that hangs, is left to the agent.
void HostDiscovery::stop_run(std::string why) {
  if (!run_ || !run_->broken.empty()) return;
  run_->broken = std::move(why);
  agent_->send({MessageType::kEndOne, runs_, 0, {}});
  timer_.start(kDies, [this] { fail(fmt::format("{}, nor after SIGKILL", run_->broken)); });
}

void HostDiscovery::judge() {
  const Run run = *std::exchange(run_, std::nullopt);
  auto hosts = read(run);
  if (!hosts.ok()) return fail(hosts.status().sentence());
  failures_ = 0;
  const auto took = std::chrono::duration_cast<milliseconds>(SteadyClock::now() - run.began);
  const bool in_need = in_need_since_ && SteadyClock::now() - *in_need_since_ < kMostHaste;
  run_again(rest_after_success(in_need ? interval_in_need(script_.every, took) : script_.every, took));
  if (last_ && *last_ == hosts.value()) return;
  last_ = std::move(hosts).value();
  events_.listed(*last_);
}

Result<std::vector<HostSlots>> HostDiscovery::read(const Run& run) const {
  if (!run.broken.empty()) return Status(Code::kSystem, run.broken);
  if (*run.wait_status != 0) {
    const std::string said = last_line(run.errors);
    return Status(Code::kSystem, fmt::format("it {}{}{}", describe_wait_status(*run.wait_status),
                                             said.empty() ? " and printed nothing to stderr" : ": ", said));
  }
  return parse_discovered_hosts(run.output, script_.slots);
}

/// Of failures that follow each other it says only the first.
void HostDiscovery::fail(const std::string& why) {
  run_.reset();
  if (ending_) return;
  const std::string sentence = fmt::format("--host-discovery-script {}: {}", printable(script_.command), why);
  if (!last_) {
    end();
    return events_.failed(sentence);
  }
  if (++failures_ == 1) {
    events_.say(fmt::format("{}; the job keeps its hosts, and the script is run again until it succeeds", sentence));
  }
  run_again(rest_after_failures(script_.every, failures_));
}

// A lost agent is replaced, but not inside the call of its own link.
void HostDiscovery::agent_over() {
  run_.reset();
  if (ending_) {
    over_ = true;
    return events_.over();
  }
  resting_ = false;
  timer_.start(kNewAgent, [this] {
    if (!start_agent().ok()) agent_over();
  });
}

void HostDiscovery::end() {
  if (std::exchange(ending_, true)) return;
  timer_.cancel();
  agent_->send({MessageType::kEnd, -1, 0, {}});
  if (agent_->over() || !agent_->started()) loop_.post([this] { agent_over(); });
}

}  // namespace rueda::core::launcher
