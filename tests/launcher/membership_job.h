#pragma once
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/membership.h"

namespace rueda::core::launcher {

using Ids = std::vector<int64_t>;

inline const WorkerExit kKilled{"killed by signal 9 (Killed)", 137, false};
inline const WorkerExit kWell{"exited with code 0", 0, true};

inline MembershipRules rules(int wanted, int least) {
  MembershipRules some;
  some.wanted = wanted;
  some.least = least;
  return some;
}

/// A membership and all that it has ordered.
struct Job {
  explicit Job(const MembershipRules& some, const std::vector<HostSlots>& hosts = {{"a", 2}, {"b", 2}})
      : membership(some, hosts, 1) {
    membership.begin();
    take();
  }
  void take() {
    for (auto& order : membership.take_orders()) orders.push_back(std::move(order));
  }
  /// Lets each member join its plan, and form it.
  void join() {
    const Plan plan = membership.plan();
    for (const auto& worker : plan.workers) membership.began(worker.id, plan.number);
    for (const auto& worker : plan.workers) {
      if (worker.holds_state == 0) membership.formed(worker.id, plan.number);
    }
    take();
  }
  template <typename Order>
  std::vector<Order> all() {
    take();
    std::vector<Order> found;
    for (const auto& order : orders) {
      if (const auto* one = std::get_if<Order>(&order)) found.push_back(*one);
    }
    return found;
  }
  Ids members() {
    take();
    Ids ids;
    for (const auto& worker : membership.plan().workers) ids.push_back(worker.id);
    return ids;
  }
  EndJob end() {
    const auto ends = all<EndJob>();
    REQUIRE(ends.size() == 1);
    return ends[0];
  }
  void at(int64_t ms) {
    membership.tick(std::chrono::milliseconds(ms));
    take();
  }
  Membership membership;
  std::vector<MembershipOrder> orders;
};

}  // namespace rueda::core::launcher
