// Jobs on several hosts whose control frames travel through the leaders of hosts.
#include <atomic>
#include <catch2/catch.hpp>
#include <latch>

#include "runtime/rendezvous/control_tree.h"
#include "tests/runtime/engine/engine_ranks.h"

namespace rueda::test {
namespace {

using namespace core;

Deadline in_a_while() { return Deadline::after(std::chrono::minutes(3)); }

EngineRanks::Options in_tree(const std::vector<std::string>& hosts) {
  EngineRanks::Options options{.size = static_cast<int>(hosts.size()), .hosts = hosts};
  options.settings.control_tree = Choice::kForce;
  options.settings.peer_timeout = std::chrono::seconds(60);
  return options;
}

/// Two ranks on each of `hosts` hosts.
std::vector<std::string> pairs(int hosts) {
  std::vector<std::string> names;
  for (int host = 0; host < hosts; ++host) names.insert(names.end(), 2, "h" + std::to_string(host));
  return names;
}

void require_sum(Engine& engine, const std::string& name, float sum) {
  std::vector<float> values = {static_cast<float>(engine.plan().rank)};
  const Status status = sum_now(engine, name, values);
  require(status.ok(), name + ": " + status.sentence());
  require(values[0] == sum, name + " gave " + std::to_string(values[0]));
}

/// Of this rank's number for a set.
Status sum_in(Engine& engine, SetId set, const std::string& name, std::vector<float>& values) {
  auto operation = make_sum(engine, {name, {&values}});
  for (TensorPart& tensor : operation->tensors()) tensor.request.set = set;
  Status entered;
  const Status status = engine.submit_and_wait(operation, entered);
  return entered.ok() ? status : entered;
}

}  // namespace

TEST_CASE("ranks of uneven hosts agree through their leaders, step after step") {
  EngineRanks::run(in_tree({"a", "b", "a", "c", "c", "a"}), [](Engine& engine, int rank) {
    require(uses_control_tree(engine.plan()), "the tree is not used");
    require(control_upstream(engine.plan()) == (std::vector<int>{-1, 0, 0, 0, 3, 0})[static_cast<size_t>(rank)],
            "another way to rank 0");
    for (int step = 0; step < 30; ++step) {
      for (const char* name : {"w0", "w1", "w2", ""}) require_sum(engine, name, 15);
    }
  });
}

TEST_CASE("a job of more ranks than connections takes the tree by itself, on ten hosts of two levels") {
  EngineRanks::run({.size = 20, .hosts = pairs(10)}, [](Engine& engine, int) {
    require(uses_control_tree(engine.plan()), "the tree is not used");
    require(control_peers(engine.plan()).size() <= kMostControlConnections, "too many control connections");
    for (int step = 0; step < 10; ++step) require_sum(engine, "w" + std::to_string(step % 2), 190);
  });
}

TEST_CASE("without the tree, or on one host, rank 0 hears every rank itself") {
  EngineRanks::Options options = in_tree({"a", "b"});
  options.settings.control_tree = Choice::kForbid;
  EngineRanks::run(options, [](Engine& engine, int) {
    require(!uses_control_tree(engine.plan()), "the tree is used");
    require_sum(engine, "w", 1);
  });
  EngineRanks::run(in_tree({"a", "a"}), [](Engine& engine, int) {
    require(!uses_control_tree(engine.plan()), "the tree is used on one host");
    require_sum(engine, "w", 1);
  });
}

TEST_CASE("a mismatch is one sentence on all ranks of the tree, and what is abandoned fails on all") {
  std::latch abandoned(1);
  EngineRanks::run(in_tree({"a", "a", "b", "b", "c"}), [&abandoned](Engine& engine, int rank) {
    for (int step = 0; step < 3; ++step) {
      std::vector<float> values(rank == 3 && step == 1 ? 3 : 2);
      const Status status = sum_now(engine, "w", values);
      if (step != 1) {
        require(status.ok(), status.sentence());
        continue;
      }
      require_failure(status, Code::kMismatch, "rank 3 (host b) sent [3]");
    }
    std::vector<float> values = {1};
    if (rank == 3) {
      auto operation = start_sum(engine, {"w", {&values}});
      require_failure(engine.abandon(operation, in_a_while()), Code::kTimeout, "was abandoned by rank 3");
      abandoned.count_down();
    } else {
      abandoned.wait();
      require_failure(sum_now(engine, "w", values), Code::kTimeout, "was abandoned by rank 3");
    }
    require_sum(engine, "after", 10);
  });
}

TEST_CASE("groups and sets whose members are on several hosts pass through leaders that are no members") {
  EngineRanks::run(in_tree({"a", "a", "b", "b", "c", "c"}), [](Engine& engine, int rank) {
    const Result<SetId> odd = engine.add_process_set({1, 3, 5}, "odd");
    require(odd.ok(), odd.status().sentence());
    for (int step = 0; step < 20; ++step) {
      if (rank % 2 == 1) {
        std::vector<float> values = {static_cast<float>(rank)};
        const Status status = sum_in(engine, odd.value(), "w", values);
        require(status.ok() && values[0] == 9, "the set: " + status.sentence());
      }
      if (step % 5 != 0) continue;
      std::vector<float> first = {1}, second = {static_cast<float>(rank)};
      auto group = start_sum(engine, {"g", {&first, &second}});
      const Status status = finish(engine, *group);
      require(status.ok() && first[0] == 6 && second[0] == 15, "the group: " + status.sentence());
    }
    require_sum(engine, "after", 15);
  });
}

TEST_CASE("what a rank has proposed and others have not does not hold up other sets of its host") {
  std::latch others_done(2);
  EngineRanks::run(in_tree({"a", "b", "b", "b"}), [&others_done](Engine& engine, int rank) {
    const Result<SetId> two = engine.add_process_set({2, 3}, "");
    std::vector<float> late = {1};
    std::shared_ptr<Operation> operation;
    if (rank == 1) others_done.wait();
    operation = start_sum(engine, {"late", {&late}});
    if (rank >= 2) {
      for (int step = 0; step < 20; ++step) {
        std::vector<float> values = {static_cast<float>(rank)};
        const Status status = sum_in(engine, two.value(), "w", values);
        require(status.ok() && values[0] == 5, "the set: " + status.sentence());
      }
      others_done.count_down();
    }
    require(finish(engine, *operation).ok() && late[0] == 4, "wrong sum");
  });
}

TEST_CASE("a leader that leaves passes frames on until those below have left") {
  std::latch done(2);
  std::atomic<int> finished = 0;
  EngineRanks::run(in_tree({"a", "b", "b", "c"}), [&](Engine& engine, int rank) {
    const Result<SetId> set = engine.add_process_set({2, 3}, "");
    require_sum(engine, "w", 6);
    if (rank == 1) {
      engine.shutdown(in_a_while());
      require(finished.load() >= 1, "the leader has gone before the ranks of its host");
      return;
    }
    if (rank < 2) {
      done.wait();
      return;
    }
    std::vector<float> values = {1};
    require_failure(sum_now(engine, "never", values), Code::kShutDown, "rank 1");
    for (int step = 0; step < 20; ++step) {
      values = {static_cast<float>(rank)};
      const Status status = sum_in(engine, set.value(), "w", values);
      require(status.ok() && values[0] == 5, "the set: " + status.sentence());
    }
    ++finished;
    done.count_down();
  });
}

TEST_CASE("a leader that runs out of patience takes those below along, and the others are told") {
  std::latch gone(1);
  EngineRanks::run(in_tree({"a", "b", "b", "c"}), [&gone](Engine& engine, int rank) {
    const Result<SetId> set = engine.add_process_set({2, 3}, "");
    const Result<SetId> rest = engine.add_process_set({0, 3}, "");
    require_sum(engine, "w", 6);
    if (rank == 1) {
      engine.shutdown(Deadline::after(std::chrono::seconds(2)));
      gone.count_down();
      return;
    }
    std::vector<float> values = {1};
    if (rank == 2) {
      gone.wait();
      require_failure(sum_in(engine, set.value(), "w", values), Code::kShutDown, "rank 1");
      require_failure(engine.status(), Code::kShutDown, "reached the others through it");
      return;
    }
    if (rank == 3) require_failure(sum_in(engine, set.value(), "w", values), Code::kShutDown, "rank 2");
    for (int step = 0; step < 3; ++step) {
      values = {static_cast<float>(rank)};
      const Status status = sum_in(engine, rest.value(), "w", values);
      require(status.ok() && values[0] == 3, "the rest: " + status.sentence());
    }
  });
}

TEST_CASE("rank 0 that leaves ends the epoch on every host") {
  EngineRanks::run(in_tree(pairs(3)), [](Engine& engine, int rank) {
    require_sum(engine, "w", 15);
    if (rank == 0) return;
    std::vector<float> values = {1};
    require_failure(sum_now(engine, "never", values), Code::kShutDown, "rank 0");
  });
}

TEST_CASE("an epoch that ends on one rank ends on all, whichever host it is on") {
  for (const int broken : {0, 1, 2, 5}) {
    std::latch running(1), go(1);
    EngineRanks::run(in_tree(pairs(3)), [&](Engine& engine, int rank) {
      std::vector<float> in = {1}, out(1);
      auto operation = start_sum(engine, {"held", {&in}, nullptr, [&](size_t) -> void* {
                                            if (rank == broken) running.count_down();
                                            if (rank == (broken + 1) % 6) go.wait();
                                            return out.data();
                                          }});
      if (rank == broken) {
        running.wait();
        require_failure(engine.abandon(operation, Deadline::after(std::chrono::milliseconds(50))), Code::kPeerLost,
                        "abandoned allreduce \"held\"");
        go.count_down();
      }
      static_cast<void>(finish(engine, *operation));  // some may have had all they needed before they heard
      std::vector<float> values = {1};
      require_failure(sum_now(engine, "w", values), Code::kPeerLost, "rank " + std::to_string(broken) + " (host h");
    });
  }
}

}  // namespace rueda::test
