// Operations through engines of ranks on threads: enqueued by many threads, fused, grouped, waited for, called back.
#include <atomic>
#include <catch2/catch.hpp>
#include <latch>
#include <thread>

#include "tests/runtime/engine/engine_ranks.h"

namespace rueda::test {
namespace {

using namespace core;

Settings progress(bool by_callers) {
  Settings settings;
  settings.caller_progress = by_callers;
  return settings;
}

float value_of(int rank, int tensor, size_t i) {
  return static_cast<float>(rank + 1) * static_cast<float>(1 + (tensor * 7 + static_cast<int>(i)) % 50);
}

void fill(std::vector<float>& values, int rank, int tensor) {
  for (size_t i = 0; i < values.size(); ++i) values[i] = value_of(rank, tensor, i);
}

void require_sums(const std::vector<float>& values, int size, int tensor) {
  for (size_t i = 0; i < values.size(); ++i) {
    float expected = 0;
    for (int rank = 0; rank < size; ++rank) expected += value_of(rank, tensor, i);
    require(values[i] == expected, "tensor " + std::to_string(tensor) + " element " + std::to_string(i) + " is " +
                                       std::to_string(values[i]) + ", expected " + std::to_string(expected));
  }
}

TEST_CASE("an end that cannot be announced, for lack of memory, keeps no other operation of the batch from its end") {
  EngineRanks::run({.size = 1}, [](Engine& engine, int) {
    std::vector<float> first(1), second(1);
    Sum unheard{"first", {&first}};
    unheard.more = true;  // so that one batch has both
    unheard.announce = [](Code) { throw std::bad_alloc(); };
    const auto unheard_operation = start_sum(engine, unheard);
    const auto behind = start_sum(engine, {"second", {&second}});
    require(finish(engine, *behind).ok() && finish(engine, *unheard_operation).ok(), "a sum failed");
    require_usable(engine, "after");
  });
}

TEST_CASE("many threads of each rank enqueue at once and all sums are right") {
  const bool by_callers = GENERATE(true, false);
  constexpr int kThreads = 4;
  constexpr int kEach = 25;
  EngineRanks::run({.size = 3, .settings = progress(by_callers)}, [](Engine& engine, int rank) {
    std::vector<std::vector<float>> tensors(size_t{kThreads} * kEach);
    std::vector<std::shared_ptr<Operation>> operations(tensors.size());
    std::vector<std::string> failures(kThreads);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i) {
          // Each rank in an order of its own, so nobody may wait before all is enqueued.
          const int index = t * kEach + (rank % 2 == 0 ? i : kEach - 1 - i);
          auto& values = tensors[static_cast<size_t>(index)];
          values.resize(static_cast<size_t>(1 + index % 40));
          fill(values, rank, index);
          auto operation = make_sum(engine, {"t" + std::to_string(index), {&values}});
          if (!engine.submit(operation).ok()) failures[static_cast<size_t>(t)] = "refused";
          operations[static_cast<size_t>(index)] = operation;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    for (const auto& failure : failures) require(failure.empty(), failure);
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Status status = finish(engine, *operations[i]);
      require(status.ok(), status.sentence());
      require_sums(tensors[i], 3, static_cast<int>(i));
    }
  });
}

TEST_CASE("blocking sums one after the other are right, whoever runs the turns") {
  const bool by_callers = GENERATE(true, false);
  EngineRanks::run({.size = 2, .settings = progress(by_callers)}, [](Engine& engine, int rank) {
    for (int round = 0; round < 200; ++round) {
      std::vector<float> values(static_cast<size_t>(1 + round % 3));
      fill(values, rank, round);
      const Status status = sum_now(engine, "same name", values);
      require(status.ok(), status.sentence());
      require_sums(values, 2, round);
    }
  });
}

TEST_CASE("ranks of which only some lend their callers work together") {
  EngineRanks::Options options{.size = 3};
  options.of_rank = [](int rank, Settings& settings) { settings.caller_progress = rank != 1; };
  EngineRanks::run(options, [](Engine& engine, int) {
    for (int round = 0; round < 50; ++round) require_usable(engine, "round " + std::to_string(round));
  });
}

TEST_CASE("what piles up is fused and every tensor of a batch gets its own sum") {
  const uint64_t threshold = GENERATE(uint64_t{0}, uint64_t{2000}, uint64_t{64} << 20);
  Settings settings;
  settings.fusion_threshold = threshold;
  EngineRanks::run({.size = 2, .settings = settings}, [](Engine& engine, int rank) {
    std::vector<std::vector<float>> tensors(60);
    std::vector<std::shared_ptr<Operation>> operations;
    for (size_t i = 0; i < tensors.size(); ++i) {
      tensors[i].resize(i * 37 % 900);  // of no elements, too
      fill(tensors[i], rank, static_cast<int>(i));
      operations.push_back(start_sum(engine, {"w" + std::to_string(i), {&tensors[i]}}));
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Status status = finish(engine, *operations[i]);
      require(status.ok(), status.sentence());
      require_sums(tensors[i], 2, static_cast<int>(i));
    }
  });
}

TEST_CASE("operations of which more follow are taken when somebody waits, polls or enqueues without, or by the tick") {
  const bool by_callers = GENERATE(true, false);
  enum class How { kWait, kWaitZero, kLook, kLast, kNobody };
  const How how = GENERATE(How::kWait, How::kWaitZero, How::kLook, How::kLast, How::kNobody);
  EngineRanks::run({.size = 2, .settings = progress(by_callers)}, [how](Engine& engine, int rank) {
    std::vector<std::vector<float>> tensors(6, std::vector<float>(5));
    std::vector<std::shared_ptr<Operation>> operations;
    std::latch called(std::ssize(tensors));
    for (size_t i = 0; i < tensors.size(); ++i) {
      fill(tensors[i], rank, static_cast<int>(i));
      Sum sum{"w" + std::to_string(i), {&tensors[i]}, [&](Code) { called.count_down(); }};
      sum.more = how != How::kLast || i + 1 < tensors.size();
      operations.push_back(start_sum(engine, sum));
    }
    for (const auto& operation : operations) {
      while (how == How::kWaitZero && engine.wait(*operation, Deadline::after({})).code() == Code::kTimeout) {
      }
      while (how == How::kLook && !operation->done()) engine.look();
    }
    if (how == How::kWait) require(finish(engine, *operations.front()).ok(), "the first");
    called.wait();
    for (size_t i = 0; i < tensors.size(); ++i) {
      require(operations[i]->done() && operations[i]->status().ok(), operations[i]->status().sentence());
      require_sums(tensors[i], 2, static_cast<int>(i));
    }
  });
}

TEST_CASE("a burst of operations ends though no caller waits, also if the ranks' bursts come one after the other") {
  constexpr int kBursts = 20, kEach = 50;
  EngineRanks::run({.size = 3}, [](Engine& engine, int rank) {
    std::vector<std::vector<float>> tensors(kEach, std::vector<float>(3));
    for (int burst = 0; burst < kBursts; ++burst) {
      std::atomic<int> ended{0};
      for (int i = 0; i < kEach; ++i) {
        auto& values = tensors[static_cast<size_t>(i)];
        fill(values, rank, i);
        start_sum(engine, {"t" + std::to_string(i), {&values}, [&ended](Code) { ++ended; }});
      }
      while (ended.load() < kEach) std::this_thread::yield();  // no wait of the engine, which would run turns
      for (int i = 0; i < kEach; ++i) require_sums(tensors[static_cast<size_t>(i)], 3, i);
    }
  });
}

TEST_CASE("a group succeeds whole") {
  EngineRanks::run({.size = 2}, [](Engine& engine, int rank) {
    std::vector<std::vector<float>> tensors(5, std::vector<float>(11));
    for (size_t i = 0; i < tensors.size(); ++i) fill(tensors[i], rank, static_cast<int>(i));
    auto operation = start_sum(engine, {"g", {&tensors[0], &tensors[1], &tensors[2], &tensors[3], &tensors[4]}});
    const Status status = finish(engine, *operation);
    require(status.ok(), status.sentence());
    for (size_t i = 0; i < tensors.size(); ++i) require_sums(tensors[i], 2, static_cast<int>(i));
  });
}

TEST_CASE("a group of which one member differs fails whole, and the engine goes on") {
  EngineRanks::run({.size = 2}, [](Engine& engine, int rank) {
    std::vector<float> a(3), b(rank == 0 ? 4 : 5);
    fill(a, rank, 0);
    const std::vector<float> before = a;
    auto operation = start_sum(engine, {"g", {&a, &b}});
    require_failure(finish(engine, *operation), Code::kMismatch, "g.1");
    require(a == before, "a member of the failed group was reduced");
    require_usable(engine, "after");
  });
}

TEST_CASE("a group one of whose names is in flight enters not at all") {
  std::latch refused(1);  // until then rank 1 leaves the operation in flight
  EngineRanks::run({.size = 2}, [&refused](Engine& engine, int rank) {
    std::vector<float> a(2), b(2), c(2);
    if (rank == 0) {
      auto first = start_sum(engine, {"g.1", {&c}});
      const Status status = engine.submit(make_sum(engine, {"g", {&a, &b}}));
      refused.count_down();
      require_failure(status, Code::kInvalidArgument, "g.1");
      auto zeroth = start_sum(engine, {"g.0", {&a}});  // its name was not kept by the refused group
      require(finish(engine, *first).ok() && finish(engine, *zeroth).ok(),
              "the operations beside the refused group failed");
    } else {
      refused.wait();
      auto first = start_sum(engine, {"g.1", {&c}});
      auto zeroth = start_sum(engine, {"g.0", {&a}});
      require(finish(engine, *first).ok() && finish(engine, *zeroth).ok(),
              "the operations beside the refused group failed");
    }
  });
}

TEST_CASE("a wait that times out leaves the operation in flight, to be waited for again") {
  std::latch late(1);
  EngineRanks::run({.size = 2}, [&late](Engine& engine, int rank) {
    std::vector<float> values = {static_cast<float>(rank)};
    if (rank == 1) {
      late.wait();
      require(sum_now(engine, "w", values).ok(), "the late rank's sum failed");
      return;
    }
    auto operation = start_sum(engine, {"w", {&values}});
    for (const auto limit : {std::chrono::milliseconds(0), std::chrono::milliseconds(5)}) {
      require_failure(engine.wait(*operation, Deadline::after(limit)), Code::kTimeout, "still in flight");
      require(!operation->done(), "the operation is done without its peer");
    }
    late.count_down();
    require(finish(engine, *operation).ok(), "the second wait failed");
    require(values[0] == 1.0f, "wrong sum");
  });
}

TEST_CASE("callbacks fire once each, in the order of completion, after the status is there, and may enqueue") {
  EngineRanks::run({.size = 2}, [](Engine& engine, int rank) {
    constexpr int kCount = 20;
    std::atomic<int> fired{0};
    std::atomic<int> early{0};
    std::latch inner_done(1);
    std::vector<float> inner = {static_cast<float>(rank)};
    std::vector<std::vector<float>> tensors(kCount, std::vector<float>(4, 1.0f));
    std::vector<std::shared_ptr<Operation>> operations(kCount);
    std::vector<int> order;
    for (int i = 0; i < kCount; ++i) {
      auto& place = operations[static_cast<size_t>(i)];
      place = make_sum(
          engine, {"c" + std::to_string(i), {&tensors[static_cast<size_t>(i)]}, [&, i](Code code) {
                     if (!operations[static_cast<size_t>(i)]->done() || code != Code::kOk || !Completer::in_callback())
                       ++early;
                     order.push_back(i);  // one completer thread
                     if (++fired < kCount) return;
                     static_cast<void>(
                         engine.submit(make_sum(engine, {"inner", {&inner}, [&](Code) { inner_done.count_down(); }})));
                   }});
      require(engine.submit(place).ok(), "refused");
    }
    for (auto& operation : operations) require(finish(engine, *operation).ok(), "failed");
    inner_done.wait();
    require(fired == kCount && early == 0,
            std::to_string(fired) + " callbacks, " + std::to_string(early) + " too early");
    require(inner[0] == 1.0f, "the sum that a callback enqueued is wrong");
    require(std::is_sorted(order.begin(), order.end()), "callbacks out of the order of completion");
  });
}

TEST_CASE("an allocation callback places the output; without memory this rank alone fails") {
  EngineRanks::run({.size = 3}, [](Engine& engine, int rank) {
    std::vector<float> in(100, static_cast<float>(rank + 1)), place(100);
    std::atomic<int> calls{0};
    auto operation = start_sum(engine, {"late", {&in}, nullptr, [&](size_t bytes) -> void* {
                                          ++calls;
                                          return rank == 1 || bytes != 400 ? nullptr : place.data();
                                        }});
    const Status status = finish(engine, *operation);
    require(calls == 1, "the callback was called " + std::to_string(calls) + " times");
    require(in[7] == static_cast<float>(rank + 1), "the input was written");
    if (rank == 1) {
      require_failure(status, Code::kSystem, "allreduce \"late\"");
    } else {
      require(status.ok(), status.sentence());
      require(place[99] == 6.0f, "wrong sum");
    }
    require_usable(engine, "after");
  });
}

}  // namespace
}  // namespace rueda::test
