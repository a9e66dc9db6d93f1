// Rank 0's half of forming an epoch: it gathers what the ranks have left in the store, decides, and publishes one
// answer for all. The steps between are in forming.cc.
//
//   wishes    all of them ─▶ admitted or refused ─▶ world and answer
//   reports   all of them ─▶ the partition into hosts, or the first rank that cannot take part
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/base/rank_ranges.h"
#include "runtime/rendezvous/admission.h"
#include "runtime/rendezvous/forming.h"
#include "runtime/rendezvous/locality.h"
#include "runtime/store/job_key.h"
#include "runtime/store/long_value.h"
#include "runtime/store/store_keys.h"

namespace rueda::core {
namespace {

/// How long rank 0, if it cannot take part, waits for ranks that it can tell so.
constexpr std::chrono::milliseconds kLastCall{500};

}  // namespace

/// If rank 0 itself is unfit, it tells those that have come and waits only a moment for others.
Status Forming::call_roll(const Status& fit) {
  const Status own =
      fit.ok() ? Status() : Status(fit.code(), "init: " + own_name() + " cannot take part: " + fit.sentence(), 0);
  const auto wishes = roll_call_.gather(own.ok() ? deadline_ : Deadline::after(kLastCall), own);
  if (!wishes.ok()) return wishes.status();
  Status verdict = admit(wishes.value());
  uint64_t epoch = 0;
  if (verdict.ok()) {
    for (const std::string& sentence : overruled(wishes.value())) log(LogLevel::kWarning, "init: {}", sentence);
    const auto published = publish_world(wishes.value());
    if (published.ok()) epoch = published.value();
    verdict = published.status();
  }
  RUEDA_RETURN_IF_ERROR(roll_call_.answer(wishes.value(), verdict, epoch));
  return verdict;
}

Result<uint64_t> Forming::publish_world(const std::vector<Wish>& wishes) {
  World world;
  for (const Wish& wish : wishes) world.ranks.push_back(wish.endpoint);
  world.agreed = print_agreed(settings_);
  if (!identity_.key.present && !settings_.insecure) {
    const auto key = random_key();
    if (!key.ok()) return key.status();
    world.key = {key.value(), true};
    log(LogLevel::kWarning,
        "init: no job key was given; rank 0 made one and sends it through the caller's store, which must be trusted");
  }
  const auto epoch = store_.add(epochs_key(options_.numbered_by.empty() ? identity_.job : options_.numbered_by), 1);
  if (!epoch.ok()) return epoch.status();
  const auto number = static_cast<uint64_t>(epoch.value());
  // Before the answer, which gives the epoch's number: a rank that has the number finds the world.
  RUEDA_RETURN_IF_ERROR(set_long(store_, world_key(identity_.job, number), encode(world)));
  return number;
}

/// Reads all reports. Returns the reason of the first rank that cannot take part.
Status Forming::first_failure(std::vector<LocalReport>& reports) {
  const EpochPlan& plan = formation_.plan;
  for (int rank = 0; rank < plan.size; ++rank) {
    const auto bytes = store_.get(local_key(plan.job, plan.epoch, rank), deadline_);
    if (!bytes.ok() && bytes.status().code() != Code::kTimeout) return bytes.status();
    if (!bytes.ok()) {
      return {Code::kTimeout, "init: " + plan.name_of(rank) + " joined, then stopped before it shared memory", rank};
    }
    auto report = decode_local_report(bytes.value());
    if (!report.ok()) return report.status();
    const Status& own = report.value().status;
    if (!own.ok()) return {own.code(), "init: " + plan.name_of(rank) + ": " + own.sentence(), rank};
    reports.push_back(std::move(report).value());
  }
  return {};
}

Status Forming::publish_hosts() {
  EpochPlan& plan = formation_.plan;
  std::vector<LocalReport> reports;
  Status verdict = plan.ranks.empty() ? Status(Code::kSystem, "init: rank 0 could not read the world it published", 0)
                                      : first_failure(reports);
  std::vector<uint64_t> numbers;
  if (verdict.ok()) {
    const std::vector<int> hosts = partition(plan.ranks, reports);
    numbers.assign(hosts.begin(), hosts.end());
    const std::string apart = why_apart(plan.ranks, reports, hosts, options_.fabric.data ? "MPI" : "TCP");
    if (!apart.empty()) log(LogLevel::kWarning, "{}", apart);
  }
  RUEDA_RETURN_IF_ERROR(store_.set(hosts_key(plan.job, plan.epoch), encode(verdict, numbers)));
  return verdict;
}

}  // namespace rueda::core
