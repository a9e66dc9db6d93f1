// How operations and epochs end before their time: abandoned, timed out, a rank that leaves, rank 0 that leaves.
#include <catch2/catch.hpp>
#include <chrono>
#include <latch>
#include <optional>
#include <thread>

#include "tests/runtime/engine/engine_ranks.h"

namespace rueda::test {
namespace {

using namespace core;

constexpr int kLeavings = 100 / RUEDA_TEST_SCALE;

Deadline soon() { return Deadline::after(std::chrono::minutes(3)); }

TEST_CASE("what is abandoned before it is agreed fails on all ranks, and the engine goes on") {
  std::latch abandoned(1);
  EngineRanks::run({.size = 2}, [&abandoned](Engine& engine, int rank) {
    std::vector<float> values = {1};
    if (rank == 1) {
      auto operation = start_sum(engine, {"w", {&values}});
      require_failure(engine.abandon(operation, soon()), Code::kTimeout, "was abandoned by rank 1");
      require(operation->done(), "abandon returned with the loan still out");
      abandoned.count_down();
    } else {
      abandoned.wait();
      require_failure(sum_now(engine, "w", values), Code::kTimeout, "was abandoned by rank 1");
    }
    require(values[0] == 1.0f, "an abandoned tensor was written");
    require_usable(engine, "after");
  });
}

TEST_CASE("to abandon what has finished, or is about to, returns its result") {
  EngineRanks::run({.size = 2}, [](Engine& engine, int) {
    std::vector<float> values = {1};
    auto operation = start_sum(engine, {"w", {&values}});
    require(finish(engine, *operation).ok(), "failed");
    require(engine.abandon(operation, soon()).ok(), "abandoning a finished operation changed its result");
    require_usable(engine, "after");
  });
}

/// A batch that rank 1 holds up, inside its allocation callback, until the test lets it go.
class HeldBatch {
 public:
  std::shared_ptr<Operation> start(Engine& engine, int rank, std::vector<float>& in, std::vector<float>& out,
                                   std::optional<std::chrono::nanoseconds> timeout = std::nullopt) {
    return start_sum(engine, {.name = "held",
                              .tensors = {&in},
                              .allocate = [this, rank, &out](size_t) -> void* {
                                if (rank == 0) running_.count_down();
                                if (rank == 1) go_.wait();
                                return out.data();
                              },
                              .timeout = timeout});
  }
  /// Until rank 0's part of the batch runs.
  void await_running() { running_.wait(); }
  void let_go() { go_.count_down(); }

 private:
  std::latch running_{1};
  std::latch go_{1};
};

TEST_CASE("what is abandoned while it runs is waited for, and succeeds if its peers go on") {
  HeldBatch held;
  EngineRanks::run({.size = 2}, [&held](Engine& engine, int rank) {
    std::vector<float> in = {1}, out(1);
    auto operation = held.start(engine, rank, in, out);
    if (rank == 0) {
      held.await_running();
      std::thread other([&held] { held.let_go(); });
      const Status status = engine.abandon(operation, soon());
      other.join();
      require(status.ok(), status.sentence());
    }
    require(finish(engine, *operation).ok() && out[0] == 2.0f, "wrong sum");
    require_usable(engine, "after");
  });
}

TEST_CASE("what is abandoned while it runs ends the epoch at its deadline, on all ranks") {
  HeldBatch held;
  EngineRanks::run({.size = 2}, [&held](Engine& engine, int rank) {
    std::vector<float> in = {1}, out(1);
    auto operation = held.start(engine, rank, in, out);
    if (rank == 0) {
      held.await_running();
      require_failure(engine.abandon(operation, Deadline::after(std::chrono::milliseconds(50))), Code::kPeerLost,
                      "abandoned allreduce \"held\"");
      require(operation->done(), "abandon returned with the loan still out");
      held.let_go();
    } else if (const Status status = finish(engine, *operation); status.ok()) {
      require(out[0] == 2.0f, "wrong sum");  // rank 1 had all it needed before it heard
    } else {
      require_failure(status, Code::kPeerLost, "rank 0 (host a");
    }
    std::vector<float> values = {1};
    require_failure(sum_now(engine, "w", values), Code::kPeerLost, "rank 0 (host a");
  });
}

TEST_CASE("what runs longer than RUEDA_TIMEOUT_SECONDS ends the epoch") {
  Settings settings;
  settings.timeout = std::chrono::milliseconds(300);
  HeldBatch held;
  EngineRanks::run({.size = 2, .settings = settings}, [&held](Engine& engine, int rank) {
    std::vector<float> in = {1}, out(1);
    auto operation = held.start(engine, rank, in, out);
    if (rank == 0) {
      require_failure(finish(engine, *operation), Code::kTimeout, "ran longer than RUEDA_TIMEOUT_SECONDS");
      held.let_go();
    }
    static_cast<void>(finish(engine, *operation));  // rank 1 may have had all it needed before it heard
    std::vector<float> values = {1};
    require_failure(sum_now(engine, "w", values), Code::kTimeout, "rank 0");
  });
}

TEST_CASE("what one rank never submits ends in TIMEOUT on those who did, and the runtime goes on") {
  Settings settings;
  settings.timeout = std::chrono::milliseconds(300);
  std::latch timed_out(2);
  EngineRanks::run({.size = 3, .settings = settings}, [&timed_out](Engine& engine, int rank) {
    if (rank != 2) {
      std::vector<float> values = {1};
      auto operation = start_sum(engine, {"w", {&values}});
      require_failure(finish(engine, *operation), Code::kTimeout, "RUEDA_TIMEOUT_SECONDS");
      timed_out.count_down();
    }
    timed_out.wait();
    require_usable(engine, "after");
  });
}

TEST_CASE("what runs longer than its own timeout ends the epoch") {
  HeldBatch held;
  EngineRanks::run({.size = 2}, [&held](Engine& engine, int rank) {
    std::vector<float> in = {1}, out(1);
    const std::chrono::nanoseconds timeout = rank == 0 ? std::chrono::milliseconds(300) : std::chrono::minutes(5);
    auto operation = held.start(engine, rank, in, out, timeout);
    if (rank == 0) {
      require_failure(finish(engine, *operation), Code::kTimeout, "ran longer than its timeout (0.3 s)");
      held.let_go();
    }
    static_cast<void>(finish(engine, *operation));
    std::vector<float> values = {1};
    require_failure(sum_now(engine, "w", values), Code::kTimeout, "rank 0");
  });
}

TEST_CASE("an operation's own timeout, shorter or longer, counts in place of RUEDA_TIMEOUT_SECONDS") {
  Settings settings;
  settings.timeout = std::chrono::milliseconds(300);
  std::latch timed_out(1);
  EngineRanks::run({.size = 2, .settings = settings}, [&timed_out](Engine& engine, int rank) {
    std::vector<float> patient = {1}, endless = {2}, others = {3}, hasty = {4};
    const auto start = [&engine](const char* name, std::vector<float>& values,
                                 std::optional<std::chrono::nanoseconds> limit) {
      return start_sum(engine, {.name = name, .tensors = {&values}, .timeout = limit});
    };
    if (rank == 1) timed_out.wait();
    auto with_patience = start("patient", patient, std::chrono::minutes(5));
    auto without_end = start("endless", endless, std::chrono::nanoseconds(0));
    if (rank == 0) {
      auto default_one = start("others", others, std::nullopt);
      require_failure(finish(engine, *default_one), Code::kTimeout, "within RUEDA_TIMEOUT_SECONDS (0.3 s)");
      auto hasty_one = start("hasty", hasty, std::chrono::milliseconds(10));
      require_failure(finish(engine, *hasty_one), Code::kTimeout, "within its timeout (0.01 s)");
      timed_out.count_down();
    }
    require(finish(engine, *with_patience).ok() && finish(engine, *without_end).ok(),
            "an operation that had more time");
    require(patient[0] == 2.0f && endless[0] == 4.0f, "wrong sums");
    require_usable(engine, "after");
  });
}

TEST_CASE("after a rank has shut down, operations that need it fail with its name, and the others shut down well") {
  const int leaver = GENERATE(0, 2);
  std::latch seen(2);
  EngineRanks::run({.size = 3}, [leaver, &seen](Engine& engine, int rank) {
    require_usable(engine, "before");
    if (rank == leaver) return;
    std::vector<float> values = {1};
    const std::string who = "rank " + std::to_string(leaver) + " ";
    require_failure(sum_now(engine, "w", values), Code::kShutDown, who);
    require_failure(sum_now(engine, "w2", values), Code::kShutDown, who);
    require(values[0] == 1.0f, "a failed tensor was written");
    seen.arrive_and_wait();  // before the next one leaves
  });
}

TEST_CASE("what was agreed before a goodbye succeeds on all ranks, also where it ends later") {
  const int leaver = GENERATE(0, 1);
  EngineRanks::run({.size = 2}, [leaver](Engine& engine, int rank) {
    std::vector<std::vector<float>> tensors(30, std::vector<float>(5000, 1.0f));
    std::vector<std::shared_ptr<Operation>> operations;
    for (size_t i = 0; i < tensors.size(); ++i)
      operations.push_back(start_sum(engine, {"w" + std::to_string(i), {&tensors[i]}}));
    if (rank == leaver) {
      require(finish(engine, *operations.back()).ok(), "the last one failed");
      engine.shutdown(soon());
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Status status = finish(engine, *operations[i]);
      require(status.ok(), status.sentence());
      require(tensors[i][4999] == 2.0f, "wrong sum");
    }
  });
}

TEST_CASE("a shut down engine refuses, says so, and shuts down again at once") {
  EngineRanks::run({.size = 2}, [](Engine& engine, int rank) {
    require_usable(engine, "before");
    engine.shutdown(soon());
    engine.shutdown(soon());
    std::vector<float> values = {1};
    require_failure(sum_now(engine, "w", values), Code::kShutDown, "has shut down");
    require_failure(engine.status(), Code::kShutDown, "has shut down");
    static_cast<void>(rank);
  });
}

TEST_CASE("ranks of several hosts that leave at once all hear that they have left") {
  for (int i = 0; i < kLeavings; ++i) {
    EngineRanks::run({.size = 3, .hosts = {"a", "b", "c"}}, [](Engine& engine, int) {
      require_usable(engine, "before");
      engine.shutdown(soon());
      require_failure(engine.status(), Code::kShutDown, "has shut down");
    });
  }
}

TEST_CASE("callbacks of operations that a shutdown fails still fire once") {
  EngineRanks::run({.size = 2}, [](Engine& engine, int rank) {
    if (rank == 1) return;
    std::vector<float> values = {1};
    std::latch fired(1);
    Code code = Code::kOk;
    auto operation = start_sum(engine, {"w", {&values}, [&](Code given) {
                                          code = given;
                                          fired.count_down();
                                        }});
    require_failure(finish(engine, *operation), Code::kShutDown, "");
    fired.wait();
    require(code == Code::kShutDown, "the callback was told another code");
  });
}

TEST_CASE("what a shutdown's deadline cuts off fails as shut down") {
  std::latch ended(1);
  EngineRanks::run({.size = 2}, [&ended](Engine& engine, int rank) {
    require_usable(engine, "before");
    if (rank == 1) {
      ended.wait();  // submits nothing
      return;
    }
    std::vector<float> values = {1};
    auto operation = start_sum(engine, {"w", {&values}});
    engine.shutdown(Deadline::after(std::chrono::milliseconds(50)));
    require_failure(finish(engine, *operation), Code::kShutDown, "");
    ended.count_down();
  });
}

TEST_CASE("ranks form a second epoch from fewer workers in the same processes, through the same store") {
  MemoryStore store;
  const std::vector<std::string> workers = {"worker a", "worker b", "worker c"};
  uint64_t first_epoch = 0;
  std::vector<std::shared_ptr<Engine>> ended(3);
  EngineRanks::run({.size = 3, .store = &store, .workers = workers}, [&](Engine& engine, int rank) {
    for (int i = 0; i < 10; ++i) require_usable(engine, "same name");
    if (rank == 0) first_epoch = engine.plan().epoch;
    ended[static_cast<size_t>(rank)] = engine.shared_from_this();  // inert from here on, yet alive
  });
  // Worker b is gone; worker c is rank 1 now.
  EngineRanks::run({.size = 2, .store = &store, .workers = {workers[0], workers[2]}}, [&](Engine& engine, int) {
    require(engine.plan().epoch > first_epoch, "the second epoch has the number of the first");
    require(engine.plan().size == 2, "the second epoch has another size");
    require(engine.plan().ranks[1].worker == "worker c", "rank 1 is not worker c");
    for (int i = 0; i < 10; ++i) require_usable(engine, "same name");
  });
  std::vector<float> values = {1};
  Status entered;
  require_failure(ended[0]->submit_and_wait(make_sum(*ended[0], {"w", {&values}}), entered), Code::kShutDown,
                  "has shut down");
}

TEST_CASE("a frame, a segment and a hello of an older epoch are refused in the next") {
  const SegmentLayout layout{.local_size = 2, .lanes = 1, .rings = 2};
  const auto segment = Segment::create(layout, 1, 0);
  REQUIRE(segment.ok());
  CHECK(Segment::map(segment.value()->fd(), layout, 1, 0).ok());
  const auto zombie = Segment::map(segment.value()->fd(), layout, 2, 0);
  REQUIRE_FALSE(zombie.ok());
  CHECK_THAT(zombie.status().sentence(), Catch::Matchers::Contains("epoch"));

  HelloDialler dialler({.job = "job", .epoch = 1, .rank = 1, .size = 2}, 0, HelloPurpose::kControl, 0);
  HelloListener listener({.job = "job", .epoch = 2, .rank = 0, .size = 2});
  const auto first = dialler.first();
  REQUIRE(first.ok());
  const auto second = listener.on_first(first.value());
  REQUIRE_FALSE(second.ok());
  CHECK_THAT(second.status().sentence(), Catch::Matchers::Contains("epoch"));

  AgreementConfig config;
  config.size = 2;
  config.rank = 1;
  config.names.hosts = {"a", "a"};
  config.sets = {SetMembers{kGlobalSet, {0, 1}, {2}, true}};
  config.select = [](const BatchShape&) { return AlgorithmChoice{}; };
  config.epoch = 1;
  Participant old_rank(config);
  Request request;
  request.ticket = 1;
  request.name = "w";
  request.metadata.shape = {1};
  old_rank.submit({&request, 1});
  config.rank = 0;
  config.epoch = 2;
  Arbiter arbiter(config);
  const Status refused = arbiter.receive(1, old_rank.take_frame());
  REQUIRE_FALSE(refused.ok());
  CHECK_THAT(refused.sentence(), Catch::Matchers::Contains("epoch"));
}

}  // namespace
}  // namespace rueda::test
