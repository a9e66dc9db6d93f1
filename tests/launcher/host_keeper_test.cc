// The keeper of discovered hosts by itself, with real processes that end before they answer. The first rest is short,
// and no test sees the end of the longest.

#include "launcher/host_keeper.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace rueda::core::launcher;
using std::chrono::milliseconds;

namespace {

// A list of hosts, which holds until a host has been tried so often.
struct Listed {
  std::vector<HostSlots> hosts;
  std::string until;
  int tries;
};

// Hosts that nobody can reach: their process ends at once. One of them is about to go before its first process has
// left.
class Unreachable {
 public:
  Unreachable(std::vector<Listed> lists, std::string leaving)
      : lists_(std::move(lists)),
        leaving_(std::move(leaving)),
        hosts_(loop_, {}, milliseconds(0),
               {[this] { keeper_.list(lists_[0].hosts); }, [](const auto&) {}, [](size_t, const Message&) {},
                [this](size_t host, const std::string& why) { keeper_.lost(host, why); }, [] {},
                [](const std::string&) {}, [](size_t) {}, [this](size_t host) { left(host); }}),
        keeper_(loop_, hosts_,
                [this](const HostSlots& host, const std::string&) {
                  ++tries_[host.name];
                  return std::vector<std::string>{"sh", "-c", "exit 1"};
                },
                milliseconds(0), {milliseconds(1), std::chrono::hours(24)},
                {[](size_t) {}, [](size_t) {}, [](size_t, const std::string&) {}, [] {}, [](const std::string&) {}}) {
    hosts_.expect_more();
    REQUIRE(hosts_.start([](const HostSlots&, const std::string&) { return std::vector<std::string>(); }).ok());
    loop_.run();
  }
  // How often each host had been tried at the end of each list.
  const std::vector<std::map<std::string, int>>& seen() const { return seen_; }

 private:
  void left(size_t host) {
    const std::string& name = hosts_.host(host).name();
    if (name == leaving_ && tries_[name] == 1) keeper_.preempted(host);
    keeper_.left(host);
    loop_.post([this] { advance(); });  // not inside the call of a link that the next list may replace
  }
  void advance() {
    if (seen_.size() == lists_.size() || tries_[lists_[seen_.size()].until] < lists_[seen_.size()].tries) return;
    seen_.push_back(tries_);
    if (seen_.size() == lists_.size()) return loop_.stop();
    keeper_.list(lists_[seen_.size()].hosts);
  }

  EventLoop loop_;
  std::vector<Listed> lists_;
  std::string leaving_;
  std::map<std::string, int> tries_;
  std::vector<std::map<std::string, int>> seen_;
  JobHosts hosts_;
  HostKeeper keeper_;
};

}  // namespace

TEST_CASE("a host that cannot be reached is tried again, one that is about to go only once it is listed anew") {
  const HostSlots stays{"a.invalid", 1}, leaves{"b.invalid", 1};
  Unreachable job({{{stays, leaves}, "a.invalid", 6},
                   {{stays, leaves}, "a.invalid", 8},
                   {{stays}, "a.invalid", 9},
                   {{stays, leaves}, "b.invalid", 4}},
                  "b.invalid");
  REQUIRE(job.seen().size() == 4);
  for (size_t list = 0; list < 3; ++list) CHECK(job.seen()[list].at("b.invalid") == 1);
  CHECK(job.seen()[3].at("b.invalid") == 4);
}
