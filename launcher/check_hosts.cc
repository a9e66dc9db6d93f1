// Asks every host what works there: each agent starts `hvdrun --check-here` as if it were the first rank of its host,
// and its output is the answer. There is no store and no judge, because one host's failure must not end the check of
// another. Answers are kept and printed together at the end, in the order of the hosts.

#include "launcher/check_hosts.h"

#include <fmt/format.h>
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <set>

#include "launcher/environment.h"
#include "launcher/job_hosts.h"
#include "launcher/start_order.h"
#include "launcher/wait_status.h"
#include "runtime/base/build_id.h"
#include "runtime/base/environment.h"

namespace rueda::core::launcher {
namespace {

void complain(const std::string& sentence) { std::fputs(fmt::format("hvdrun: {}\n", sentence).c_str(), stderr); }

/// The check is a process of its own and not the agent itself: a plug-in's library may hang or crash, and the agent
/// must be able to end it.
StartOrder order_check(const Arguments& arguments, const HostShare& share) {
  StartOrder order;
  order.build = build_id();
  order.program = "/proc/self/exe";
  order.arguments = {"hvdrun", "--check-here"};
  order.environment = job_environment(process_environment().all(), arguments.variables, "check", share.host.name);
  order.directory = "/";
  order.ranks.push_back({share.ranks.front().rank, {}});
  return order;
}

class HostCheck {
 public:
  HostCheck(const Arguments& arguments, const JobPlan& plan)
      : arguments_(arguments),
        plan_(plan),
        hosts_(loop_, plan.hosts, plan.silence,
               {[this] { ask(); }, [this](const std::vector<std::string>& sentences) { ask_the_others(sentences); },
                [this](size_t host, const Message& message) { receive(host, message); },
                [this](size_t host, const std::string& why) { fail(host, why); }, [this] { loop_.stop(); }, complain}),
        patience_(loop_),
        limit_(std::chrono::duration_cast<std::chrono::seconds>(arguments.start_timeout)),
        answers_(plan.hosts.size()) {}

  Status start() {
    ::signal(SIGPIPE, SIG_IGN);
    if (arguments_.verbose) hosts_.describe_hosts();
    RUEDA_RETURN_IF_ERROR(hosts_.start(agent_command(arguments_, plan_)));
    if (limit_.count() != 0) patience_.start(limit_, [this] { hosts_.end_waiting(limit_); });
    return {};
  }

  int run() {
    loop_.run();
    for (size_t host = 0; host < answers_.size(); ++host) {
      if (!answers_[host].empty()) fmt::print("Host {}\n\n{}\n", hosts_.host(host).name(), answers_[host]);
    }
    return failed_ ? 1 : 0;
  }

 private:
  // Runs once every host has introduced itself or failed. An agent of another build cannot read our order, so it is
  // only told to leave.
  void ask() {
    if (limit_.count() != 0) patience_.start(limit_, [this] { give_up(); });
    for (size_t host = 0; host < hosts_.count(); ++host) {
      const auto& who = hosts_.host(host).introduction();
      if (!hosts_.host(host).open()) continue;
      if (who && who->build == build_id()) {
        awaited_.insert(host);
        hosts_.send(host, {MessageType::kStart, -1, 0, encode(order_check(arguments_, hosts_.host(host).share()))});
      } else {
        hosts_.send(host, {MessageType::kEnd, -1, 0, {}});
      }
    }
  }

  void ask_the_others(const std::vector<std::string>& sentences) {
    for (const std::string& sentence : sentences) complain(sentence);
    failed_ = true;
    ask();
  }

  void receive(size_t host, const Message& message) {
    switch (message.type) {
      case MessageType::kOutput: return take(host, message);
      case MessageType::kNotStarted: return fail(host, fmt::format("could not be checked: {}", message.bytes));
      case MessageType::kExited: return exited(host, static_cast<int>(message.number));
      case MessageType::kDone: return left(host);
      case MessageType::kNote: return complain(fmt::format("host {}: {}", hosts_.host(host).name(), message.bytes));
      default: return;  // what HostLink has handled, and kinds that an agent never sends
    }
  }

  // What libraries of plug-ins print on stderr goes to ours, as it would from a rank.
  void take(size_t host, const Message& message) {
    hosts_.owe(host, static_cast<int64_t>(message.bytes.size()));
    hosts_.grant();
    if (message.number == 1) {
      answers_[host] += message.bytes;
    } else {
      std::fwrite(message.bytes.data(), 1, message.bytes.size(), stderr);
    }
  }

  void exited(size_t host, int wait_status) {
    if (awaited_.erase(host) == 0 || wait_status == 0) return;  // it failed before, by running out of time
    fail(host, fmt::format("could not be checked (hvdrun --check-here: {})", describe_wait_status(wait_status)));
  }

  void left(size_t host) {
    if (awaited_.count(host) > 0) fail(host, "could not be checked: its agent left without an answer");
  }

  void fail(size_t host, const std::string& why) {
    if (!why.empty()) complain(fmt::format("host {} {}", hosts_.host(host).name(), why));
    failed_ = true;
    awaited_.erase(host);
  }

  void give_up() {
    for (const size_t host : std::set<size_t>(awaited_)) {
      fail(host, fmt::format("did not finish its check within {} s", limit_.count()));
      hosts_.send(host, {MessageType::kEnd, -1, 0, {}});
    }
  }

  const Arguments& arguments_;
  const JobPlan& plan_;
  EventLoop loop_;
  JobHosts hosts_;
  Timer patience_;
  std::chrono::seconds limit_;        // to reach all hosts, and again for their answers; 0 means no limit
  std::vector<std::string> answers_;  // by host
  std::set<size_t> awaited_;
  bool failed_ = false;
};

}  // namespace

int check_hosts(const Arguments& arguments, const JobPlan& plan) {
  HostCheck check(arguments, plan);
  const Status started = check.start();
  if (started.ok()) return check.run();
  complain(started.sentence());
  return 1;
}

}  // namespace rueda::core::launcher
