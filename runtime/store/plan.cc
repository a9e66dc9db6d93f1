// The wire formats of plans, notices, sets and requests, as `plan_key`, `change_key`, `sets_key` and `reset_key` hold
// them:
//
//   plan     | u32 mark | u64 number | u32 changes | text why | varint count | count workers |
//   worker   | i64 id | text host | i32 slot | u8 holds_state |
//   notice   | u32 mark | u64 plan | u32 changes | u32 newcomers | f64 seconds |
//   sets     | u32 mark | varint count | count times: varint members, i64 id of each |
//   request  text: the number of the plan, and then perhaps " in order"
//
// The sentence is cut before it is written: one that is too long must not make a plan unreadable.
#include "runtime/store/plan.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_set>

#include "runtime/base/wire.h"

namespace rueda::core {
namespace {

constexpr uint32_t kPlanMark = 0x4e414c50;    // "PLAN" as bytes
constexpr uint32_t kNoticeMark = 0x4e474843;  // "CHGN" as bytes
constexpr uint32_t kSetsMark = 0x53544553;    // "SETS" as bytes
constexpr size_t kMostSentenceBytes = 4096;
constexpr size_t kMostPlannedHostBytes = 255;
constexpr size_t kLeastWorkerBytes = 8 + 1 + 4 + 1;
constexpr std::string_view kInOrder = " in order";

bool known(uint32_t changes) { return (changes & ~(kWorkersRemoved | kWorkersAdded)) == 0; }

PlannedWorker read_worker(WireReader& reader) {
  PlannedWorker worker;
  worker.id = reader.i64();
  worker.host = reader.text(kMostPlannedHostBytes);
  worker.slot = reader.i32();
  worker.holds_state = reader.u8();
  if (worker.id < 0 || worker.slot < 0 || worker.holds_state > 1) reader.fail();
  return worker;
}

}  // namespace

int Plan::rank_of(int64_t id) const {
  const auto found =
      std::find_if(workers.begin(), workers.end(), [id](const PlannedWorker& worker) { return worker.id == id; });
  return found == workers.end() ? -1 : static_cast<int>(found - workers.begin());
}

int Plan::workers_beside(int rank) const {
  const std::string& host = workers[static_cast<size_t>(rank)].host;
  return static_cast<int>(
      std::count_if(workers.begin(), workers.end(), [&](const PlannedWorker& worker) { return worker.host == host; }));
}

Plan Plan::with(const PlannedWorker& newcomer) const {
  Plan plan = *this;
  const auto beside = [&newcomer](const PlannedWorker& worker) { return worker.host == newcomer.host; };
  const auto last = std::find_if(plan.workers.rbegin(), plan.workers.rend(), beside);
  plan.workers.insert(last == plan.workers.rend() ? plan.workers.end() : last.base(), newcomer);
  return plan;
}

std::string encode(const Plan& plan) {
  WireWriter writer;
  writer.u32(kPlanMark);
  writer.u64(plan.number);
  writer.u32(plan.changes);
  writer.text(std::string_view(plan.why).substr(0, kMostSentenceBytes));
  writer.varint(plan.workers.size());
  for (const PlannedWorker& worker : plan.workers) {
    writer.i64(worker.id);
    writer.text(std::string_view(worker.host).substr(0, kMostPlannedHostBytes));
    writer.i32(worker.slot);
    writer.u8(worker.holds_state);
  }
  return writer.take_text();
}

std::string encode(const MembershipNotice& notice) {
  WireWriter writer;
  writer.u32(kNoticeMark);
  writer.u64(notice.plan);
  writer.u32(notice.changes);
  writer.u32(notice.newcomers);
  writer.f64(notice.seconds_to_removal);
  return writer.take_text();
}

std::string encode(const PlannedSets& sets) {
  WireWriter writer;
  writer.u32(kSetsMark);
  writer.varint(sets.members.size());
  for (const std::vector<int64_t>& members : sets.members) {
    writer.varint(members.size());
    for (const int64_t id : members) writer.i64(id);
  }
  return writer.take_text();
}

std::string encode(const PlanRequest& request) {
  return std::to_string(request.after) + std::string(request.in_order ? kInOrder : "");
}

std::optional<Plan> decode_plan(std::string_view bytes) {
  WireReader reader(bytes);
  Plan plan;
  const uint32_t mark = reader.u32();
  plan.number = reader.u64();
  plan.changes = reader.u32();
  plan.why = reader.text(kMostSentenceBytes);
  const size_t count = reader.count(kLeastWorkerBytes);
  if (count == 0 || count > kMostPlannedWorkers) return std::nullopt;
  std::unordered_set<int64_t> ids;
  for (size_t i = 0; i < count && reader.ok(); ++i) {
    plan.workers.push_back(read_worker(reader));
    if (!ids.insert(plan.workers.back().id).second) return std::nullopt;
  }
  if (!reader.finished() || mark != kPlanMark || plan.number == 0 || !known(plan.changes)) return std::nullopt;
  return plan;
}

std::optional<MembershipNotice> decode_notice(std::string_view bytes) {
  WireReader reader(bytes);
  MembershipNotice notice;
  const uint32_t mark = reader.u32();
  notice.plan = reader.u64();
  notice.changes = reader.u32();
  notice.newcomers = reader.u32();
  notice.seconds_to_removal = reader.f64();
  const bool time = std::isfinite(notice.seconds_to_removal) && notice.seconds_to_removal >= 0;
  if (!reader.finished() || mark != kNoticeMark || notice.plan == 0 || !known(notice.changes) || !time)
    return std::nullopt;
  return notice;
}

std::optional<PlannedSets> decode_planned_sets(std::string_view bytes) {
  WireReader reader(bytes);
  PlannedSets sets;
  const uint32_t mark = reader.u32();
  const size_t count = reader.count(1);
  for (size_t i = 0; i < count && reader.ok(); ++i) {
    std::vector<int64_t>& members = sets.members.emplace_back(reader.count(sizeof(int64_t)));
    for (int64_t& id : members) {
      id = reader.i64();
      if (id < 0) reader.fail();
    }
  }
  if (!reader.finished() || mark != kSetsMark) return std::nullopt;
  return sets;
}

std::optional<PlanRequest> decode_request(std::string_view bytes) {
  PlanRequest request;
  const char* const end = bytes.data() + bytes.size();
  const auto [rest, error] = std::from_chars(bytes.data(), end, request.after);
  if (error != std::errc()) return std::nullopt;
  const std::string_view behind(rest, static_cast<size_t>(end - rest));
  request.in_order = behind == kInOrder;
  return behind.empty() || request.in_order ? std::optional(request) : std::nullopt;
}

}  // namespace rueda::core
