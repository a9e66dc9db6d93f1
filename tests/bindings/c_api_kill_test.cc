// kill -9 at a random moment under every collective: what the survivors had in flight completes exactly once.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tests/bindings/submission.h"
#include "tests/sim/random.h"
#include "tests/support/rank_processes.h"

namespace rueda::test {
namespace {

using Kind = Submission::Kind;

constexpr int kRanksToKill = 3;
constexpr int kInFlight = 12;
constexpr int kTold = 30;  ///< steps that a rank reports, of those it takes
constexpr char kKindVariable[] = "TEST_KIND";
/// Beside the kinds: groups of three all-reduces, and joins.
constexpr int kGroups = static_cast<int>(kAllKinds.size());
constexpr int kJoins = kGroups + 1;
/// Jobs of each kind.
constexpr int kKills = 4 / RUEDA_TEST_SCALE > 0 ? 4 / RUEDA_TEST_SCALE : 1;

/// An operation, and how often and with what it was told to have ended.
struct Tracked {
  std::vector<float> values;
  rueda_handle handle = 0;
  int32_t waited = -1;
  std::atomic<int> calls{0};
  std::atomic<int32_t> called_with{-1};
  int drained = 0;
  int32_t drained_with = -1;

  bool told_once() const {
    return calls.load() == 1 && drained == 1 && called_with.load() == waited && drained_with == waited;
  }
  std::string story() const {
    return "called " + std::to_string(calls.load()) + " times, with " + std::to_string(called_with.load()) +
           ", drained " + std::to_string(drained) + " times, with " + std::to_string(drained_with) +
           ", waited for with " + std::to_string(waited);
  }
};

Submission submission_of(Kind kind, int step, int index) {
  Submission submission;
  submission.kind = kind;
  // Some run inside a turn, some on a lane in many chunks.
  submission.shape = {index % 4 == 3 ? 60'000 : 3 * (1 + (step + index) % 5)};
  submission.root = index % kRanksToKill;
  return submission;
}

/// One rank's operations of one kind, step after step, until a peer is lost.
class Load {
 public:
  Load(rueda_session* session, int kind) : session_(session), kind_(kind) {}

  /// Each step enqueues a dozen, waits for them, and keeps their handles: what is told late or twice is seen.
  void run() {
    while (lost_ == 0 && refused_.empty()) {
      const size_t first = all_.size();
      const int count = kind_ == kJoins ? 1 : kInFlight;
      for (int index = 0; index < count && refused_.empty(); ++index) start(index);
      for (size_t i = first; i < all_.size(); ++i) wait_for(*all_[i]);
      if (lost_ == 0 && refused_.empty() && step_ < kTold) rank_report("step" + std::to_string(step_) + " done");
      ++step_;
    }
  }

  /// Reads ends until each operation has one, then looks for more of them.
  void drain_all() {
    int32_t fd = -1;
    expect_code(rueda_completion_fd(session_, &fd), RUEDA_OK, "descriptor");
    const core::Deadline deadline = patience();
    while (drain() < all_.size()) {
      pollfd readable{fd, POLLIN, 0};
      expect(!deadline.passed(), std::to_string(all_.size() - drained_) + " ends were never told");
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.left(std::chrono::minutes(2)));
      static_cast<void>(poll(&readable, 1, static_cast<int>(left.count()) + 1));
    }
  }

  /// After shutdown, when all callbacks have run.
  void report() {
    for (const auto& tracked : all_) {
      expect(tracked->told_once(), tracked->story());
      expect(rueda_wait(tracked->handle, 0) == tracked->waited, "a second wait ended otherwise");
      expect_code(rueda_release(tracked->handle), RUEDA_OK, "release");
    }
    rank_report("refused " + refused_);
    rank_report("lost " + std::to_string(lost_) + " " + sentence_);
  }

 private:
  void start(int index) {
    const Submission submission = submission_of(kind_ < kGroups ? static_cast<Kind>(kind_) : Kind{}, step_, index);
    if (!submission.concerns(rueda_rank(session_))) return;
    auto tracked = std::make_unique<Tracked>();
    tracked->values.assign(static_cast<size_t>(submission.shape[0]), 1);
    const std::string name = "op" + std::to_string(index);
    rueda_op_options options = named(index % 3 == 0 ? nullptr : name.c_str());
    options.callback_context = tracked.get();
    options.callback = [](void* context, rueda_handle, int32_t code) {
      auto* const self = static_cast<Tracked*>(context);
      self->called_with.store(code);
      self->calls.fetch_add(1);
    };
    options.drain = 1;
    options.drain_context = tracked.get();
    const int32_t code = enqueue_one(submission, *tracked, options);
    if (code == RUEDA_OK) return all_.push_back(std::move(tracked));
    refused_ = std::string(rueda_error_name(code)) + " " + rueda_last_error();
  }

  int32_t enqueue_one(const Submission& submission, Tracked& tracked, rueda_op_options& options) {
    if (kind_ == kJoins) return rueda_join_async(session_, &options, &tracked.handle);
    if (kind_ != kGroups) return enqueue(session_, submission, tracked.values.data(), options, &tracked.handle);
    std::vector<rueda_tensor> tensors;
    const std::vector<int64_t> shape = {static_cast<int64_t>(tracked.values.size()) / 3};
    for (int64_t member = 0; member < 3; ++member) {
      tensors.push_back(*CTensor(tracked.values.data() + member * shape[0], RUEDA_F32, shape).get());
      tensors.back().shape = shape.data();
    }
    return rueda_grouped_allreduce_async(session_, 3, tensors.data(), tensors.data(), nullptr, RUEDA_SUM, &options,
                                         &tracked.handle);
  }

  void wait_for(Tracked& tracked) {
    tracked.waited = rueda_wait(tracked.handle, -1);
    tracked.values = {};
    if (tracked.waited == RUEDA_OK) return;
    const std::string sentence = rueda_handle_error(tracked.handle);
    expect(tracked.waited == RUEDA_PEER_LOST, std::string(rueda_error_name(tracked.waited)) + " " + sentence);
    if (lost_++ == 0) sentence_ = sentence;
    expect(cause_of(sentence) == cause_of(sentence_), "two causes: " + sentence_ + " | " + sentence);
  }

  /// What comes after the operation, which each sentence names.
  static std::string cause_of(const std::string& sentence) {
    const size_t at = sentence.find(" failed: ");
    expect(at != std::string::npos, "no operation in: " + sentence);
    return sentence.substr(at);
  }

  size_t drain() {
    rueda_completion ends[kInFlight];
    for (size_t count = kInFlight; count == kInFlight;) {
      expect_code(rueda_drain(session_, ends, kInFlight, &count), RUEDA_OK, "drain");
      for (size_t i = 0; i < count; ++i) {
        auto* const tracked = static_cast<Tracked*>(ends[i].context);
        ++tracked->drained;
        ++drained_;
        tracked->drained_with = ends[i].code;
        expect(ends[i].handle == tracked->handle, "another handle was told");
      }
    }
    return drained_;
  }

  rueda_session* const session_;
  const int kind_;
  int step_ = 0;
  std::vector<std::unique_ptr<Tracked>> all_;
  size_t drained_ = 0;
  int lost_ = 0;
  std::string sentence_;  ///< of the first that was lost
  std::string refused_;   ///< code and sentence of the enqueue that was
};

/// A stretch of work of a random length, so that the end comes anywhere in a step.
void some_work(sim::Random& random) {
  volatile uint64_t work = 1;  // so that nobody leaves it out
  for (size_t turns = random.below(600'000); turns > 0; --turns) work = work * 6364136223846793005u + turns;
}

void kill_one(int kind, uint64_t seed) {
  sim::Random random(seed);
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  RankProcesses ranks({.size = kRanksToKill,
                       .body = "rank: one collective until a peer is lost",
                       .variables = {{kKindVariable, std::to_string(kind)}}});
  const int victim = random.between(0, kRanksToKill - 1);
  ranks.await(victim, "step" + std::to_string(random.between(3, kTold - 1)));
  some_work(random);
  const std::string pid = std::to_string(ranks.pid(victim));
  ranks.signal(victim, SIGKILL);
  const std::vector<RankOutcome> outcomes = ranks.finish();
  for (int rank = 0; rank < kRanksToKill; ++rank) {
    const RankOutcome& outcome = outcomes[static_cast<size_t>(rank)];
    INFO("kind " << kind << ", seed " << seed << ", rank " << victim << " killed, rank " << rank << ": "
                 << outcome.output);
    if (rank == victim) {
      CHECK(outcome.signal == SIGKILL);
      continue;
    }
    REQUIRE(outcome.exit_code == 0);
    const std::string refused = outcome.report("refused");
    const std::string lost = outcome.report("lost");
    const std::string reason = lost.rfind("0 ", 0) == 0 || lost == "0" ? refused : lost;
    INFO("refused: " << refused << ", lost: " << lost);
    // Nobody has reaped it yet: that its connection ended is what is known of the cause.
    for (const std::string& word :
         {"rank " + std::to_string(victim), std::string(host), "pid " + pid, std::string("died: its process")}) {
      CHECK(reason.find(word) != std::string::npos);
    }
    if (!refused.empty()) CHECK(refused.rfind("PEER_LOST ", 0) == 0);
  }
}

}  // namespace

TEST_CASE("rank: one collective until a peer is lost", "[.]") {
  rueda_session* session = nullptr;
  REQUIRE(rueda_init(nullptr, &session) == RUEDA_OK);
  Load load(session, std::atoi(std::getenv(kKindVariable)));
  load.run();
  load.drain_all();
  REQUIRE(rueda_shutdown(session) == RUEDA_OK);
  load.report();
}

TEST_CASE(
    "kill -9 at a random moment: every handle completes exactly once and says who died, whatever the collective") {
  for (int kind = 0; kind <= kJoins; ++kind) {
    for (int i = 0; i < kKills; ++i) kill_one(kind, static_cast<uint64_t>(kind) * 100 + static_cast<uint64_t>(i));
  }
}

}  // namespace rueda::test
