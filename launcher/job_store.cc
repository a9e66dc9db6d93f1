// The store that hvdrun serves, and what its keys mean to the judge. Ranks write counters and never name an epoch:
// `wishes` counts a rank's calls of `init`, `goodbyes` its calls of `shutdown` that are done, `leaving` those that have
// begun. hvdrun compares the counters when the rank has exited, so the order of messages between ranks and hvdrun does
// not matter.

#include "launcher/job_store.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <span>

#include "runtime/store/store_keys.h"

namespace rueda::core::launcher {
namespace {

constexpr int64_t kAnyEpoch = 0;  // ranks take a verdict with this epoch as theirs

Status draw(std::span<uint8_t> bytes) {
  if (getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size())) return {};
  return {Code::kSystem, fmt::format("no random bytes for the job's key: {}", std::strerror(errno))};
}

}  // namespace

// The deadline is now, so `get` looks and never waits.
int64_t read_counter(Store& store, const std::string& key) {
  const auto text = store.get(key, Deadline::at(SteadyClock::now()));
  int64_t value = 0;
  if (text.ok()) std::from_chars(text.value().data(), text.value().data() + text.value().size(), value);
  return value;
}

bool is_settled(Store& store, const std::string& job, int rank, const std::string& key) {
  const auto now = [] { return Deadline::at(SteadyClock::now()); };
  const int64_t wishes = read_counter(store, wishes_key(job, rank));
  int64_t settled = read_counter(store, key) + read_counter(store, void_key(job, rank));
  for (int64_t number = 1; number <= wishes && settled < wishes; ++number) {
    const auto wish = store.get(wish_key(job, rank, number), now());
    const bool withdrawn = wish.ok() && wish.value().empty();  // an init that fails empties its wish
    const bool past = number < wishes && store.get(failed_key(job, rank, number), now()).ok();
    if (withdrawn || past) ++settled;
  }
  return settled > 0 && settled >= wishes;
}

Result<std::unique_ptr<JobStore>> JobStore::start(int ranks, const std::vector<std::string>& addresses, Events events) {
  std::unique_ptr<JobStore> store(new JobStore);
  std::array<uint8_t, 8> name{};
  if (Status drawn = draw(name); !drawn.ok()) return drawn;
  if (Status drawn = draw(store->key_.bytes); !drawn.ok()) return drawn;
  store->key_.present = true;
  store->job_ = "job-";
  for (const uint8_t byte : name) store->job_ += fmt::format("{:02x}", byte);

  StoreServerOptions options;
  options.addresses = addresses;
  options.job = store->job_;
  options.key = store->key_;
  options.waits = StoreWaits::kForJobsToEnd;  // a verdict ends every `get` that waits
  auto server = StoreServer::start(options);
  if (!server.ok()) return server.status();
  store->server_ = std::move(server).value();
  for (int rank = 0; rank < ranks; ++rank) {
    store->server_->when_set(wishes_key(store->job_, rank), [began = events.began, rank] { began(rank); });
    store->server_->each_time(leaving_key(store->job_, rank), [leaves = events.leaves, rank] { leaves(rank); });
  }
  store->server_->when_set(evidence_key(store->job_), std::move(events.evidence));
  return store;
}

std::string JobStore::key() const { return {key_.bytes.begin(), key_.bytes.end()}; }

bool JobStore::said_goodbye(int rank) { return is_settled(*server_, job_, rank, goodbyes_key(job_, rank)); }

std::vector<int> JobStore::away(int ranks) {
  std::vector<int> found;
  for (int rank = 0; rank < ranks; ++rank) {
    if (is_settled(*server_, job_, rank, leaving_key(job_, rank))) found.push_back(rank);
  }
  return found;
}

std::optional<DeathVerdict> JobStore::evidence() {
  const auto text = server_->get(evidence_key(job_), Deadline::at(SteadyClock::now()));
  return text.ok() ? decode_death(text.value()) : std::nullopt;
}

std::optional<std::string> JobStore::failure_before_shutdown(int rank) {
  const int64_t wishes = read_counter(*server_, wishes_key(job_, rank));
  const auto noted = server_->get(failed_key(job_, rank, wishes), Deadline::at(SteadyClock::now()));
  return noted.ok() ? std::optional(noted.value()) : std::nullopt;
}

Status JobStore::declare_dead(int rank, const std::string& host, int64_t pid, const std::string& cause) {
  const DeathVerdict verdict{kAnyEpoch, rank, host, pid, cause};
  return server_->set(death_key(job_), encode(verdict));
}

int64_t JobStore::ask_for_dumps(const std::vector<int>& ranks,
                                const std::function<void(int64_t number, int rank)>& answered) {
  const int64_t number = ++dumps_;
  for (const int rank : ranks)
    server_->when_set(dumped_key(job_, number, rank), [answered, number, rank] { answered(number, rank); });
  static_cast<void>(server_->set(dump_key(job_, number), "all"));
  return number;
}

std::vector<std::string> JobStore::dumps(int64_t number, const std::vector<int>& ranks) {
  std::vector<std::string> found;
  for (const int rank : ranks) {
    const std::string key = dumped_key(job_, number, rank);
    Result<std::string> dump = server_->get(key, Deadline::at(SteadyClock::now()));
    if (!dump.ok()) continue;
    found.push_back(std::move(dump).value());
    static_cast<void>(server_->remove(key));  // records may be large, and the job may be dumped often
  }
  return found;
}

}  // namespace rueda::core::launcher
