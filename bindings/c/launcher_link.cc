// What hvdrun and a rank tell each other through the store, beside the rank's own meeting: hvdrun writes deaths and
// asks for flight records; a rank reports evidence and answers. Each direction has a connection of its own that waits
// for one key, so that neither delays the other.
#include "bindings/c/launcher_link.h"

#include "runtime/store/death.h"
#include "runtime/store/store_keys.h"

namespace rueda::core {
namespace {

constexpr std::chrono::seconds kHandOverLimit{5};
/// How long operations of a plan that is over in order may run: as long as the worker that ended it has waited for its
/// own (kOldEngineLimit in elastic_session.cc).
constexpr std::chrono::seconds kLastOperations{5};

/// The launcher's verdicts, as the store carries them.
class StoreVerdicts : public VerdictSource {
 public:
  StoreVerdicts(std::unique_ptr<StoreWatch> watch, std::string job) : watch_(std::move(watch)), job_(std::move(job)) {}
  int fd() const override { return watch_->fd(); }
  std::optional<Verdict> take() override {
    const std::optional<Result<std::string>> value = watch_->take();
    if (!value) return std::nullopt;
    if (!value->ok()) return Verdict();
    const std::optional<DeathVerdict> verdict = decode_death(value->value());
    return verdict ? Verdict{verdict->status()} : Verdict();
  }
  void report(int rank, const std::string& how) override {
    watch_->tell(evidence_key(job_), encode(DeathVerdict{0, rank, "", 0, how}));
  }

 private:
  std::unique_ptr<StoreWatch> watch_;
  std::string job_;
};

/// The launcher's requests for flight records, one key after the other.
class StoreDumps : public DumpSource {
 public:
  /// `teller`: the rank, or in an elastic job the worker, under which it gives records.
  StoreDumps(StoreLocation where, int64_t teller, std::unique_ptr<StoreWatch> watch)
      : where_(std::move(where)), teller_(teller), watch_(std::move(watch)) {}
  int fd() const override { return watch_->fd(); }
  bool open() const override { return open_; }
  std::optional<int64_t> take() override {
    const std::optional<Result<std::string>> value = open_ ? watch_->take() : std::nullopt;
    if (!value) return std::nullopt;
    open_ = value->ok();
    if (!open_) return std::nullopt;
    const int64_t number = next_++;
    watch_->next(dump_key(where_.job, next_));
    return number;
  }
  Status give(int64_t number, const std::string& json) override {
    const Result<std::unique_ptr<StoreClient>> store = StoreClient::connect(where_, Deadline::after(kHandOverLimit));
    return store.ok() ? store.value()->set(dumped_key(where_.job, number, teller_), json) : store.status();
  }

 private:
  const StoreLocation where_;
  const int64_t teller_;
  std::unique_ptr<StoreWatch> watch_;
  int64_t next_ = 1;
  bool open_ = true;
};

/// Passes on what another source brings, which outlives it.
class PassedDumps : public DumpSource {
 public:
  explicit PassedDumps(std::shared_ptr<DumpSource> from) : from_(std::move(from)) {}
  int fd() const override { return from_->fd(); }
  std::optional<int64_t> take() override { return from_->take(); }
  bool open() const override { return from_->open(); }
  Status give(int64_t number, const std::string& json) override { return from_->give(number, json); }

 private:
  const std::shared_ptr<DumpSource> from_;
};

/// The end of one plan, as `PlanFollower` hears of it.
class PlanVerdicts : public VerdictSource {
 public:
  PlanVerdicts(PlanFollower& members, std::shared_ptr<Cutoff> cutoff, std::string job)
      : members_(members), cutoff_(std::move(cutoff)), job_(std::move(job)) {}
  int fd() const override { return cutoff_->fd(); }
  std::optional<Verdict> take() override {
    if (!cutoff_->raised()) return std::nullopt;
    const bool in_order = cutoff_->ending() == Ending::kInOrder;
    return Verdict{cutoff_->abort().why(), in_order ? kLastOperations : std::chrono::seconds(0)};
  }
  void report(int rank, const std::string& how) override {
    members_.tell(evidence_key(job_), encode(DeathVerdict{0, rank, "", 0, how}));
  }

 private:
  PlanFollower& members_;
  const std::shared_ptr<Cutoff> cutoff_;
  const std::string job_;
};

}  // namespace

Result<std::unique_ptr<WorkerDumps>> WorkerDumps::start(const StoreLocation& where, int64_t worker, Deadline deadline) {
  Result<std::unique_ptr<StoreWatch>> watch = StoreWatch::start(where, dump_key(where.job, 1), deadline);
  if (!watch.ok()) return watch.status();
  return std::unique_ptr<WorkerDumps>(
      new WorkerDumps(std::make_shared<StoreDumps>(where, worker, std::move(watch).value())));
}

std::unique_ptr<DumpSource> WorkerDumps::source() const { return std::make_unique<PassedDumps>(requests_); }

std::unique_ptr<VerdictSource> plan_verdicts(PlanFollower& members, std::shared_ptr<Cutoff> cutoff, std::string job) {
  return std::make_unique<PlanVerdicts>(members, std::move(cutoff), std::move(job));
}

Result<LauncherLink> link_to_launcher(const StoreLocation& where, int rank, Deadline deadline) {
  Result<std::unique_ptr<StoreWatch>> deaths = StoreWatch::start(where, death_key(where.job), deadline);
  if (!deaths.ok()) return deaths.status();
  Result<std::unique_ptr<StoreWatch>> dumps = StoreWatch::start(where, dump_key(where.job, 1), deadline);
  if (!dumps.ok()) return dumps.status();
  LauncherLink link;
  link.verdicts = std::make_unique<StoreVerdicts>(std::move(deaths).value(), where.job);
  link.dumps = std::make_unique<StoreDumps>(where, rank, std::move(dumps).value());
  return link;
}

}  // namespace rueda::core
