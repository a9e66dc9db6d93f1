// What ranks read from a store and from its connections: requests, replies, and the records that ranks leave there.
#include <map>
#include <sstream>

#include "runtime/base/environment.h"
#include "runtime/base/settings.h"
#include "runtime/rendezvous/node_list.h"
#include "runtime/rendezvous/wish.h"
#include "runtime/store/death.h"
#include "runtime/store/long_value.h"
#include "runtime/store/memory_store.h"
#include "runtime/store/plan.h"
#include "runtime/store/store_client.h"
#include "runtime/store/store_protocol.h"
#include "tests/fuzz/targets.h"

namespace rueda::fuzz {
namespace {

using namespace rueda::core;

/// A frame of the store without its length.
std::span<const std::byte> body_of(std::span<const std::byte> frame) { return frame.subspan(4); }

void fuzz_request(Bytes bytes) {
  const auto request = decode_request(bytes);
  if (!request) return;
  hold(request->key.size() <= kMaxKeyBytes && request->value.size() <= kMaxValueBytes);
  hold_round_trip(
      *request, [](const StoreRequest& one) { return encode(one); },
      [](const std::vector<std::byte>& frame) { return decode_request(body_of(frame)); });
}

void fuzz_reply(Bytes bytes) {
  const auto reply = decode_reply(bytes);
  if (!reply) return;
  hold_round_trip(
      *reply, [](const StoreReply& one) { return encode(one); },
      [](const std::vector<std::byte>& frame) { return decode_reply(body_of(frame)); });
}

void fuzz_wish(Bytes bytes) {
  const auto wish = decode_wish(text_of(bytes));
  if (!wish.ok() || wish.value().protocol != kProtocolNumber) return;
  hold_round_trip(
      wish.value(), [](const Wish& one) { return encode(one); },
      [](const std::string& text) { return decode_wish(text); });
}

void fuzz_world(Bytes bytes) {
  const auto world = decode_world(text_of(bytes));
  if (!world.ok()) return;
  hold_round_trip(
      world.value(), [](const World& one) { return encode(one); },
      [](const std::string& text) { return decode_world(text); });
}

void fuzz_report(Bytes bytes) {
  const auto report = decode_local_report(text_of(bytes));
  if (!report.ok()) return;
  hold_round_trip(
      report.value(), [](const LocalReport& one) { return encode(one); },
      [](const std::string& text) { return decode_local_report(text); });
}

void fuzz_numbers(Bytes bytes) {
  const auto numbers = decode_numbers(text_of(bytes));
  if (!numbers.ok()) return;
  hold_round_trip(
      numbers.value(), [](const std::vector<uint64_t>& some) { return encode(Status(), some); },
      [](const std::string& text) { return decode_numbers(text); });
}

void fuzz_death(Bytes bytes) {
  const auto verdict = decode_death(text_of(bytes));
  if (!verdict) return;
  hold(!verdict->status().ok());
  hold_round_trip(
      *verdict, [](const DeathVerdict& one) { return encode(one); },
      [](const std::string& text) { return decode_death(text); });
}

void fuzz_plan(Bytes bytes) {
  const auto plan = decode_plan(text_of(bytes));
  if (!plan) return;
  hold(!plan->workers.empty() && plan->workers.size() <= kMostPlannedWorkers);
  hold(plan->number != 0 && (plan->changes & ~(kWorkersRemoved | kWorkersAdded)) == 0);
  for (size_t rank = 0; rank < plan->workers.size(); ++rank) {
    hold(plan->rank_of(plan->workers[rank].id) == static_cast<int>(rank));
  }
  hold_round_trip(
      *plan, [](const Plan& one) { return encode(one); }, [](const std::string& text) { return decode_plan(text); });
}

void fuzz_notice(Bytes bytes) {
  const auto notice = decode_notice(text_of(bytes));
  if (!notice) return;
  hold_round_trip(
      *notice, [](const MembershipNotice& one) { return encode(one); },
      [](const std::string& text) { return decode_notice(text); });
}

void fuzz_planned_sets(Bytes bytes) {
  const auto sets = decode_planned_sets(text_of(bytes));
  if (!sets) return;
  hold_round_trip(
      *sets, [](const PlannedSets& one) { return encode(one); },
      [](const std::string& text) { return decode_planned_sets(text); });
}

void fuzz_plan_request(Bytes bytes) {
  const auto request = decode_request(text_of(bytes));
  if (!request) return;
  // Nothing but leading zeros may be lost.
  const std::string_view given = text_of(bytes);
  const std::string again = encode(*request);
  hold(given.ends_with(again));
  hold(given.substr(0, given.size() - again.size()).find_first_not_of('0') == std::string_view::npos);
  hold_round_trip(
      *request, [](const PlanRequest& one) { return encode(one); },
      [](const std::string& text) { return decode_request(text); });
}

void fuzz_long_value(Bytes bytes) {
  const Deadline now = Deadline::after(std::chrono::nanoseconds(0));
  MemoryStore store;
  const size_t half = bytes.size() / 2;
  static_cast<void>(store.set("key", text_of(bytes.first(half))));
  static_cast<void>(store.set("key/2", text_of(bytes.subspan(half))));
  const auto value = get_long(store, "key", now);
  if (value.ok()) hold(value.value().size() <= kMaxLongBytes);
  hold(remove_long(store, "key").ok());
  hold(!store.get("key", now).ok());
}

void fuzz_agreed(Bytes bytes) {
  const std::string text(text_of(bytes));
  Settings settings;
  const std::string before = print_agreed(settings);
  if (!apply_agreed(text, settings).ok()) {
    hold(print_agreed(settings) == before);
    return;
  }
  hold(parse_agreed(text).ok());
  const std::string printed = print_agreed(settings);
  Settings again;
  hold(apply_agreed(printed, again).ok());
  hold(print_agreed(again) == printed);
}

/// Lines of NAME=value, as an environment has them.
void fuzz_settings(Bytes bytes) {
  std::map<std::string, std::string> variables;
  std::istringstream lines{std::string(text_of(bytes))};
  for (std::string line; std::getline(lines, line);) {
    const size_t equals = line.find('=');
    if (equals != std::string::npos) variables[line.substr(0, equals)] = line.substr(equals + 1);
  }
  const auto settings = read_settings(Environment(variables));
  hold(settings.ok() || !settings.status().sentence().empty());
}

void fuzz_node_list(Bytes bytes) {
  const auto nodes = expand_nodes(text_of(bytes));
  if (nodes.ok()) hold(nodes.value().size() <= 65536);
  const auto counts = expand_counts(text_of(bytes));
  if (counts.ok()) hold(counts.value().size() <= 65536);
}

void fuzz_address(Bytes bytes) {
  const auto where = parse_store_address(std::string(text_of(bytes)));
  if (where.ok()) hold(where.value().port != 0 && !where.value().host.empty());
}

constexpr Target kStoreTargets[] = {
    {"request", fuzz_request},
    {"reply", fuzz_reply},
    {"wish", fuzz_wish},
    {"world", fuzz_world},
    {"report", fuzz_report},
    {"numbers", fuzz_numbers},
    {"death", fuzz_death},
    {"long_value", fuzz_long_value},
    {"agreed", fuzz_agreed},
    {"settings", fuzz_settings},
    {"node_list", fuzz_node_list},
    {"address", fuzz_address},
    {"plan", fuzz_plan},
    {"notice", fuzz_notice},
    {"planned_sets", fuzz_planned_sets},
    {"plan_request", fuzz_plan_request},
};

}  // namespace

std::span<const Target> store_targets() { return kStoreTargets; }

}  // namespace rueda::fuzz
