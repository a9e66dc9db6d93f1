// Jobs of two hosts one of whose connections ends, by FIN or RST, after each number of bytes.
#include <atomic>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "ops/data_plane.h"
#include "runtime/base/log.h"
#include "runtime/rendezvous/wish.h"
#include "runtime/store/death.h"
#include "runtime/store/store_client.h"
#include "runtime/store/store_keys.h"
#include "runtime/store/store_server.h"
#include "tests/runtime/engine/engine_ranks.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/leftovers.h"
#include "tests/support/scale.h"

namespace rueda::test {
namespace {

using namespace core;

/// Only what hangs passes it.
constexpr std::chrono::minutes kHang{5};
/// How long init of a rank may wait for one that has ended where no store tells of it.
constexpr std::chrono::seconds kCutInit{4};
/// So many jobs at once: those that wait for a deadline hold up no others.
constexpr int kAtOnce = 8;

/// The connections that two hosts have; the last is that for data with RUEDA_TLS=all.
enum class Line { kStore, kControl, kData, kSealedData };
constexpr std::string_view kLineNames[] = {"store", "control", "data", "data in TLS"};
constexpr std::string_view kFlowNames[] = {"up", "down"};
constexpr std::string_view kKindNames[] = {"FIN", "half", "RST"};

struct CutCase {
  Line line;
  Cut cut;
};

std::string words(const CutCase& one) {
  return std::string(kLineNames[static_cast<size_t>(one.line)]) + " " +
         std::string(kFlowNames[static_cast<size_t>(one.cut.flow)]) + " after " + std::to_string(one.cut.after_bytes) +
         " bytes, " + std::string(kKindNames[static_cast<size_t>(one.cut.kind)]);
}

/// A store as one rank sees it, in which rank 0's endpoint is a proxy's.
class DivertedStore : public Store {
 public:
  DivertedStore(std::unique_ptr<Store> store, FaultProxy& proxy) : store_(std::move(store)), proxy_(proxy) {}
  Status set(std::string_view key, std::string_view value) override {
    if (key.find("/wish/") == std::string_view::npos) return store_->set(key, value);
    auto wish = decode_wish(value);
    if (!wish.ok()) return store_->set(key, value);  // withdrawn
    proxy_.lead_to(wish.value().endpoint.port);
    wish.value().endpoint.port = proxy_.port();
    return store_->set(key, encode(wish.value()));
  }
  Result<std::string> get(std::string_view key, Deadline deadline) override { return store_->get(key, deadline); }
  Result<int64_t> add(std::string_view key, int64_t amount) override { return store_->add(key, amount); }

 private:
  std::unique_ptr<Store> store_;
  FaultProxy& proxy_;
};

/// How one rank's job ended: whether init, then the sum, went well.
struct End {
  Status status;
  float sum = 0;
};

StoreServerOptions served() {
  StoreServerOptions options;
  options.key.present = true;
  options.key.bytes.fill(7);
  options.waits = StoreWaits::kForJobsToEnd;
  return options;
}

FaultProxy::Options watching(Line line, const std::optional<CutCase>& one, uint16_t target) {
  FaultProxy::Options options;
  options.target = target;
  if (line == Line::kControl) options.first = 'C';
  if (line == Line::kData || line == Line::kSealedData) options.first = 'D';
  if (one && one->line == line) options.cut = one->cut;
  return options;
}

/// One short job of two ranks on two hosts: init, a sum of 4 bytes, shutdown. Rank 1 reaches store and rank 0 through
/// proxies. When rank 1's init fails its process would end, and the store says so, as with hvdrun.
class CutJob {
 public:
  /// `line`: which connection to rank 0 is watched, beside that to the store.
  CutJob(const std::optional<CutCase>& one, Line line, Deadline deadline)
      : deadline_(deadline),
        sealed_(line == Line::kSealedData),
        server_(StoreServer::start(served()).value()),
        store_line_(watching(Line::kStore, one, server_->port())),
        rank_line_(watching(line, one, 0)) {}

  void run() {
    std::thread other([this] { ends_[1] = run_rank(1); });
    ends_[0] = run_rank(0);
    other.join();
  }
  const End& end(int rank) const { return ends_[rank]; }
  bool has_cut() const { return store_line_.has_cut() || rank_line_.has_cut(); }
  size_t bytes(Line line, Flow flow) const {
    return (line == Line::kStore ? store_line_ : rank_line_).recorded(flow).size();
  }
  std::string store_name() const { return "store at 127.0.0.1:" + std::to_string(store_line_.port()); }

 private:
  Identity identity(int rank) const {
    Identity one;
    one.rank = rank;
    one.size = 2;
    one.host = rank == 0 ? "a" : "b";
    one.key = served().key;
    one.worker = "worker" + std::to_string(rank);
    return one;
  }

  Result<Formation> form(int rank, const Settings& settings) {
    StoreLocation where{"127.0.0.1", rank == 0 ? server_->port() : store_line_.port(), "job", served().key};
    auto client = StoreClient::connect(where, deadline_);
    if (!client.ok()) return client.status();
    if (rank == 1) return form_epoch(identity(1), client.value().get(), settings, deadline_);
    DivertedStore store(std::move(client).value(), rank_line_);
    return form_epoch(identity(0), &store, settings, deadline_);
  }

  End run_rank(int rank) {
    Settings settings;
    settings.num_lanes = 1;
    settings.network_interfaces = "127.0.0.1";
    settings.tls_all = sealed_;
    auto formation = form(rank, settings);
    if (!formation.ok()) {
      const DeathVerdict death{0, rank, rank == 0 ? "a" : "b", 0, "its init failed"};
      static_cast<void>(server_->set(death_key("job"), encode(death)));
      return {formation.status()};
    }
    auto executor = make_executor(formation.value().plan.settings);
    const auto engine = Engine::start(std::move(formation).value(), std::move(executor), nullptr).value();
    std::vector<float> values = {static_cast<float>(rank + 1)};
    const Status status = sum_now(*engine, "w", values);
    engine->shutdown(Deadline::after(std::chrono::seconds(5)));
    return {status, values[0]};
  }

  const Deadline deadline_;
  const bool sealed_;
  const std::unique_ptr<StoreServer> server_;
  FaultProxy store_line_;
  FaultProxy rank_line_;
  End ends_[2];
};

bool names_peer(const CutJob& job, int rank) {
  const std::string& sentence = job.end(rank).status.sentence();
  const bool store = rank == 1 && sentence.find(job.store_name()) != std::string::npos;
  return store || sentence.find("rank " + std::to_string(1 - rank)) != std::string::npos;
}

/// What is wrong with a job's end; empty: nothing.
std::string complaint(const CutJob& job) {
  for (const int rank : {0, 1}) {
    const End& end = job.end(rank);
    const std::string who = "rank " + std::to_string(rank);
    if (end.status.ok() && end.sum != 3) return who + " got the sum " + std::to_string(end.sum);
    if (!end.status.ok() && !job.has_cut()) return who + " failed without a cut: " + end.status.sentence();
    if (!end.status.ok() && !names_peer(job, rank)) return who + " names no peer: " + end.status.sentence();
    if (end.status.sentence().find("job key") != std::string::npos)
      return who + " blames keys: " + end.status.sentence();
  }
  return {};
}

/// Ends the process, with a sentence, when it is not destroyed before time is up: a thread that hangs cannot be joined.
class HangGuard {
 public:
  explicit HangGuard(std::string what) : what_(std::move(what)), thread_([this] { watch(); }) {}
  ~HangGuard() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    ended_.notify_one();
    thread_.join();
  }

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    if (ended_.wait_for(lock, kHang, [this] { return over_; })) return;
    std::fprintf(stderr, "hangs: %s\n", what_.c_str());
    std::abort();
  }
  const std::string what_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;
};

std::string try_cut(const CutCase& one) {
  const HangGuard guard(words(one));
  CutJob job(one, one.line, Deadline::after(kCutInit));
  job.run();
  std::string wrong = complaint(job);
  if (wrong.empty() || job.has_cut()) return wrong;
  // Nothing was cut, so it may only have been slow: again with all the time that it wants.
  CutJob again(one, one.line, Deadline::after(kHang));
  again.run();
  return complaint(again);
}

/// The complaints about these cuts, each with its case.
std::vector<std::string> try_all(const std::vector<CutCase>& cases) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::vector<std::string> complaints;
  std::vector<std::thread> threads;
  for (int i = 0; i < kAtOnce; ++i) {
    threads.emplace_back([&] {
      for (size_t at = next++; at < cases.size(); at = next++) {
        const std::string wrong = try_cut(cases[at]);
        const std::lock_guard lock(mutex);
        if (!wrong.empty()) complaints.push_back(words(cases[at]) + ": " + wrong);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return complaints;
}

/// Each `step`-th cut of a line, beginning at `begin`, from before the first byte to behind the last.
std::vector<CutCase> cuts_of(Line line, size_t begin, size_t step) {
  CutJob whole(std::nullopt, line, Deadline::after(kHang));
  whole.run();
  REQUIRE(complaint(whole).empty());
  std::vector<CutCase> cases;
  size_t at = begin;
  for (const Flow flow : {Flow::kUp, Flow::kDown}) {
    const size_t end = whole.bytes(line, flow) + 2;
    REQUIRE(end > 2);
    for (const CutKind kind : {CutKind::kFin, CutKind::kHalf, CutKind::kReset}) {
      for (; at < end; at += step) cases.push_back({line, {flow, at, kind}});
      at -= end;  // so that the kinds have different offsets
    }
  }
  return cases;
}

void check_cuts(Line line, size_t step) {
  set_log_level(LogLevel::kFatal, false);  // each end of an epoch is a warning
  const std::vector<CutCase> cases = cuts_of(line, step / 2, step);
  const Holdings before = holdings();
  for (const std::string& wrong : try_all(cases)) FAIL_CHECK(wrong);
  for (const std::string& leak : leaks(before, holdings())) FAIL_CHECK("left behind: " << leak);
  for (const std::string& file : named_files()) FAIL_CHECK("left behind: " << file);
  set_log_level(LogLevel::kWarning, false);
}

/// In a suite that must be quick some of the offsets, under a sanitizer fewer.
size_t wide(size_t step) { return step * (kThorough ? 1 : 5); }

}  // namespace

TEST_CASE("a store connection that ends after any number of bytes gives success or an error that names the peer") {
  check_cuts(Line::kStore, wide(97));
}

TEST_CASE("a control connection that ends after any number of bytes gives success or an error that names the peer") {
  check_cuts(Line::kControl, wide(29));
}

TEST_CASE("a data connection that ends after any number of bytes gives success or an error that names the peer") {
  check_cuts(Line::kData, wide(5));
}

TEST_CASE(
    "a data connection in TLS that ends after any number of bytes gives success or an error that names the peer") {
  check_cuts(Line::kSealedData, wide(47));
}

TEST_CASE("a connection that ends at each single byte gives success or an error that names the peer", "[.][long]") {
  check_cuts(GENERATE(Line::kData, Line::kSealedData, Line::kControl, Line::kStore), 1);
}

}  // namespace rueda::test
