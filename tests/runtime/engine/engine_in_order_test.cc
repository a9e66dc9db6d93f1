// An epoch that a launcher ends in order: what runs on a rank ends first, for a bounded time, and the rest fails.
#include <catch2/catch.hpp>
#include <chrono>
#include <latch>
#include <thread>

#include "runtime/base/cutoff.h"
#include "tests/runtime/engine/engine_ranks.h"

namespace rueda::test {
namespace {

using namespace core;

const Status kWhy(Code::kPeerLost, "worker 0 asked for a reset");

/// Tells one engine that its epoch is over, once the test has raised the cutoff.
class TestVerdicts : public VerdictSource {
 public:
  TestVerdicts(std::shared_ptr<Cutoff> cutoff, std::chrono::nanoseconds patience)
      : cutoff_(std::move(cutoff)), patience_(patience) {}
  int fd() const override { return cutoff_->fd(); }
  std::optional<Verdict> take() override {
    return cutoff_->raised() ? std::optional(Verdict{cutoff_->abort().why(), patience_}) : std::nullopt;
  }
  void report(int, const std::string&) override {}

 private:
  const std::shared_ptr<Cutoff> cutoff_;
  const std::chrono::nanoseconds patience_;
};

/// Ranks with a launcher, and a batch that the last rank holds up inside its allocation callback.
class Ending {
 public:
  Ending(EngineRanks::Options options, std::chrono::nanoseconds patience) : options_(std::move(options)) {
    for (int rank = 0; rank < options_.size; ++rank) cutoffs_.push_back(Cutoff::make().value());
    options_.launcher = [this, patience](int rank) {
      return std::make_unique<TestVerdicts>(cutoffs_[static_cast<size_t>(rank)], patience);
    };
  }
  void run(const EngineRanks::Body& body) { EngineRanks::run(options_, body); }

  std::shared_ptr<Operation> start_held(Engine& engine, int rank, std::vector<float>& in, std::vector<float>& out) {
    return start_sum(engine, {.name = "held", .tensors = {&in}, .allocate = [this, rank, &out](size_t) -> void* {
                                if (rank == 0) running_.count_down();
                                if (rank == options_.size - 1) go_.wait();
                                return out.data();
                              }});
  }
  /// Until rank 0's part of the batch runs.
  void await_running() { running_.wait(); }
  void let_go() { go_.count_down(); }
  /// Ends the epoch of this rank, and waits until it takes no more operations.
  void end(Engine& engine, int rank) {
    static_cast<void>(cutoffs_[static_cast<size_t>(rank)]->raise(kWhy));
    while (engine.status().ok()) std::this_thread::yield();
  }
  int last() const { return options_.size - 1; }

 private:
  EngineRanks::Options options_;
  std::vector<std::shared_ptr<Cutoff>> cutoffs_;
  std::latch running_{1};
  std::latch go_{1};
};

void end_while_a_batch_runs(EngineRanks::Options options) {
  const int size = options.size;
  Ending ending(std::move(options), std::chrono::minutes(3));
  std::latch first(1), all(size);
  ending.run([&](Engine& engine, int rank) {
    std::vector<float> in = {1}, out(1), alone = {1};
    const auto held = ending.start_held(engine, rank, in, out);
    if (rank == 0) {
      const auto unmatched = start_sum(engine, {"alone", {&alone}});
      ending.await_running();
      ending.end(engine, rank);
      require_failure(finish(engine, *unmatched), kWhy.code(), kWhy.sentence());
      require_failure(sum_now(engine, "late", alone), kWhy.code(), kWhy.sentence());
      first.count_down();
    }
    first.wait();
    if (rank != 0) ending.end(engine, rank);
    all.arrive_and_wait();
    if (rank == ending.last()) ending.let_go();
    const Status status = finish(engine, *held);
    require(status.ok(), "rank " + std::to_string(rank) + ": " + status.sentence());
    require(out[0] == static_cast<float>(size), "wrong sum");
  });
}

}  // namespace

TEST_CASE("an epoch that ends in order lets what runs end on every rank, and fails the rest") {
  end_while_a_batch_runs({.size = 3});
}

TEST_CASE("an epoch that ends in order does so in a tree of hosts, too") {
  Settings settings;
  settings.control_tree = Choice::kForce;
  end_while_a_batch_runs({.size = 4, .settings = settings, .hosts = {"a", "a", "b", "b"}});
}

TEST_CASE("what still runs when the patience with it has ended fails, also on ranks that wait for another one") {
  Ending ending({.size = 3}, std::chrono::milliseconds(100));
  std::latch failed(2);
  ending.run([&](Engine& engine, int rank) {
    std::vector<float> in = {1}, out(1);
    const auto held = ending.start_held(engine, rank, in, out);
    ending.await_running();
    ending.end(engine, rank);
    if (rank != ending.last()) {
      require_failure(finish(engine, *held), kWhy.code(), kWhy.sentence());
      failed.count_down();
    } else {
      failed.wait();
      ending.let_go();
      static_cast<void>(finish(engine, *held));  // it may have had all it needed
    }
  });
}

TEST_CASE("a rank that leaves while others run a batch has left in order once it has run there too") {
  Ending ending({.size = 3}, std::chrono::minutes(3));
  std::latch left(1);
  ending.run([&](Engine& engine, int rank) {
    std::vector<float> in = {1}, out(1);
    const auto held = ending.start_held(engine, rank, in, out);
    if (rank == 0) {
      ending.await_running();
      ending.let_go();
      engine.shutdown(Deadline::after(std::chrono::minutes(3)));
      require(engine.left_in_order(), "rank 0 has not left in order");
      left.count_down();
    }
    left.wait();
    if (rank != 0) ending.end(engine, rank);
    const Status status = finish(engine, *held);
    require(status.ok() && out[0] == 3.0f, "rank " + std::to_string(rank) + ": " + status.sentence());
  });
}

TEST_CASE("a rank whose epoch has ended for a reason has not left in order") {
  EngineRanks::run({.size = 2}, [](Engine& engine, int rank) {
    if (rank == 0) engine.end_epoch({Code::kPeerLost, "the loss is a NaN", 0});
    while (engine.status().ok()) std::this_thread::yield();
    engine.shutdown(Deadline::after(std::chrono::minutes(3)));
    require(!engine.left_in_order(), "it counts as left in order");
  });
}

}  // namespace rueda::test
