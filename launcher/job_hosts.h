#pragma once
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/host_link.h"
#include "launcher/store_route.h"

namespace rueda::core::launcher {

/// All hosts of a job: reaches each one, reports those that it cannot use, and sends to all of them. Owns their links.
/// Belongs to the loop's thread. Events come from the loop.
class JobHosts {
 public:
  struct Events {
    /// Once, when every host has answered with an agent of our build.
    std::function<void()> all_here;
    /// Once instead of `all_here`, when each host has answered or failed, with a sentence for each that failed.
    std::function<void(std::vector<std::string>)> some_failed;
    std::function<void(size_t host, const Message&)> message;
    /// After one of those: the host is lost. `why` is a clause that continues its name, as in "has been silent for 5
    /// s".
    std::function<void(size_t host, std::string why)> lost;
    /// Once and last: no process or link of any host is left here.
    std::function<void()> over;
    std::function<void(std::string)> say;  ///< a line for the user
    /// Of a host that was added: it has answered with an agent of our build.
    std::function<void(size_t host)> answered = {};
    /// Of a host that was added: no process or link of it is left here, and it may be `reach`ed again.
    std::function<void(size_t host)> left = {};
  };

  JobHosts(EventLoop& loop, const std::vector<HostShare>& shares, std::chrono::milliseconds silence, Events events);
  JobHosts(const JobHosts&) = delete;
  JobHosts& operator=(const JobHosts&) = delete;

  /// Returns the words of a command that starts an agent on another host, given the path of hvdrun on this one.
  using Command = std::function<std::vector<std::string>(const HostSlots&, const std::string& hvdrun)>;
  /// Starts an agent on each host, by `command` if it is another machine. Returns kSystem if a process could not be
  /// started; the destructor ends the others.
  Status start(const Command& command);
  /// Hosts may be added from now on: `over` does not come before `expect_no_more`. Call it before `start`.
  void expect_more() { more_ = true; }
  void expect_no_more();
  /// Adds a host, after `all_here`, and returns its index.
  size_t add(const HostShare& share);
  /// Starts an agent on an added host that has none, or whose last one has `left`. Then `answered` follows, or `lost`.
  /// Gives the host up if it has not answered after `limit`, zero meaning never. Returns kSystem if no process can be
  /// started; nothing follows then.
  Status reach(size_t host, const HostShare& share, const Command& command, std::chrono::milliseconds limit);
  /// Gives a host up at once, for a reason that nobody needs to hear, or for `why`, as for `lost`.
  void give_up(size_t host, std::string why = {}) { links_[host]->give_up(std::move(why)); }
  /// From now on prints a line about each host when it answers: version, slots, cores, addresses.
  void describe_hosts() { describe_ = true; }
  /// Gives up hosts that have not answered after `waited`; each gets a sentence.
  void end_waiting(std::chrono::duration<double> waited);
  /// Gives up hosts that have not answered, without a sentence, because the user ended hvdrun.
  void drop_unanswered();

  size_t count() const { return links_.size(); }
  const HostLink& host(size_t index) const { return *links_[index]; }
  /// Returns whether each host has answered or failed.
  bool answered() const { return reported_; }
  bool any_open() const;
  /// Returns `HostLink::heard_lately` of the rank's host.
  bool heard_lately(int rank) const;
  void send(size_t host, const Message& message) { links_[host]->send(message); }
  void send_all(const Message& message);
  void owe(size_t host, int64_t bytes) { links_[host]->owe(bytes); }
  void grant();
  /// Returns where hvdrun's store listens, at addresses of `interfaces`, and by which each host reaches it; if hosts
  /// may be added, it listens at all of them. Call it once every host has answered. Returns the error of
  /// `listen_addresses` or `plan_store_routes`.
  Result<StoreRoutes> store_routes(const std::string& interfaces) const;
  /// Returns by which addresses an added host reaches the store. Errors as `store_routes`.
  Result<std::vector<std::string>> routes_of(size_t host, const std::string& interfaces) const;

 private:
  std::unique_ptr<HostLink> make_link(size_t host, const HostShare& share);
  void introduced(size_t host);
  void link_over(size_t host);
  void host_lost(size_t host, const std::string& why);
  void settle();
  void tell_twin(size_t host);

  EventLoop& loop_;
  const std::chrono::milliseconds silence_;
  Events events_;
  std::vector<std::unique_ptr<HostLink>> links_;
  std::vector<std::unique_ptr<Timer>> limits_;  // of added hosts, for their answer; else null
  std::vector<bool> settled_;
  std::vector<std::string> failures_;
  std::set<std::pair<std::string, std::string>> told_twins_;
  std::unique_ptr<SignalWatch> child_;
  bool describe_ = false;
  bool reported_ = false;  // all_here or some_failed was called
  bool more_ = false;      // hosts may still be added
  bool over_ = false;
};

}  // namespace rueda::core::launcher
