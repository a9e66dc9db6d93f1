#include "launcher/check_hosts.h"

#include <fmt/format.h>
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <set>

#include "launcher/job_hosts.h"
#include "launcher/start_order.h"
#include "runtime/base/build_id.h"

namespace rueda::core::launcher {
namespace {

using std::chrono::milliseconds;

void complain(const std::string& sentence) { std::fputs(fmt::format("hvdrun: {}\n", sentence).c_str(), stderr); }

class HostCheck {
 public:
  explicit HostCheck(const JobPlan& plan)
      : hosts_(loop_, plan.hosts, plan.silence,
               {[this] { ask(); }, [this](const std::vector<std::string>& sentences) { ask_the_others(sentences); },
                [this](size_t host, const Message& message) { receive(host, message); },
                [this](size_t host, const std::string& why) { lose(host, why); }, [this] { loop_.stop(); }, complain}),
        patience_(loop_),
        answers_(plan.hosts.size()) {}

  Status start(const Arguments& arguments, const JobPlan& plan) {
    ::signal(SIGPIPE, SIG_IGN);
    if (arguments.verbose) hosts_.describe_hosts();
    RUEDA_RETURN_IF_ERROR(hosts_.start(agent_command(arguments, plan)));
    const auto limit = std::chrono::duration_cast<milliseconds>(arguments.start_timeout);
    if (limit.count() == 0) return {};
    patience_.start(limit,
                    [this, limit] { hosts_.end_waiting(std::chrono::duration_cast<std::chrono::seconds>(limit)); });
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
  void ask() {
    for (size_t host = 0; host < hosts_.count(); ++host) {
      const auto& who = hosts_.host(host).introduction();
      if (!hosts_.host(host).open() || !who || who->build != build_id()) continue;
      awaited_.insert(host);
      hosts_.send(host, {MessageType::kCheck, -1, 0, {}});
    }
    end_if_told();
  }

  void ask_the_others(const std::vector<std::string>& sentences) {
    for (const std::string& sentence : sentences) complain(sentence);
    failed_ = true;
    ask();
  }

  void receive(size_t host, const Message& message) {
    if (message.type != MessageType::kChecked) return;
    answers_[host] = message.bytes;
    awaited_.erase(host);
    end_if_told();
  }

  void lose(size_t host, const std::string& why) {
    if (!why.empty()) complain(fmt::format("host {} {}", hosts_.host(host).name(), why));
    failed_ = true;
    awaited_.erase(host);
    end_if_told();
  }

  void end_if_told() {
    if (awaited_.empty()) hosts_.send_all({MessageType::kEnd, -1, 0, {}});
  }

  EventLoop loop_;
  JobHosts hosts_;
  Timer patience_;
  std::vector<std::string> answers_;  // by host
  std::set<size_t> awaited_;
  bool failed_ = false;
};

}  // namespace

int check_hosts(const Arguments& arguments, const JobPlan& plan) {
  HostCheck check(plan);
  const Status started = check.start(arguments, plan);
  if (started.ok()) return check.run();
  complain(started.sentence());
  return 1;
}

}  // namespace rueda::core::launcher
