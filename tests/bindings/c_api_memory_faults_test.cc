// Tensors in memory of rueda_memory_allocate and ranks that are processes: what the settings and the system allow, and
// that no other rank reaches a tensor after its operation, however it ended.
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/bindings/shared_floats.h"
#include "tests/support/rank_processes.h"
#include "tests/support/refused_call.h"
#include "tests/support/scale.h"

namespace rueda::test {
namespace {

/// Elements of a tensor that takes long enough to be interrupted in the middle.
constexpr size_t kLong = (size_t{64} << 20) / sizeof(float) / RUEDA_TEST_SCALE;

}  // namespace

TEST_CASE("rank: allocates as its settings allow", "[.]") {
  if (std::getenv("REFUSED") != nullptr) {
    const long memfd[] = {SYS_memfd_create};
    REQUIRE(core::refuse_calls(memfd));
  }
  rueda_session* session = nullptr;
  REQUIRE(rueda_init(nullptr, &session) == RUEDA_OK);
  {
    const Floats small(session, kInPlace);
    rank_report(std::string("small ") + (small.shared() ? "shared" : "private"));
    sum_in_place(session, small.data(), kInPlace, "w");
    rank_report("batches " + std::to_string(batches_of(session, "shm_shared")));
    rueda_memory large{};
    large.struct_size = sizeof large;
    const int32_t code = rueda_memory_allocate(session, size_t{8} << 20, &large);
    rank_report("large " + std::string(rueda_error_name(code)) + " " + (code == RUEDA_OK ? "" : rueda_last_error()));
    if (code == RUEDA_OK) rueda_memory_free(large.data);
  }
  REQUIRE(rueda_shutdown(session) == RUEDA_OK);
}

TEST_CASE("The settings limit shared tensors or turn them off, and a system that refuses them gives private memory") {
  struct Setting {
    RankProcesses::Variables variables;
    std::string small, batches, large;
  };
  const Setting settings[] = {
      {{}, "shared", "1", "OK "},
      {{{"RUEDA_SHARED_TENSORS", "0"}}, "private", "0", "OK "},
      {{{"REFUSED", "1"}}, "private", "0", "OK "},
      {{{"RUEDA_SHARED_TENSOR_BYTES", "2MiB"}},
       "shared",
       "1",
       "SYSTEM shared tensors: 8388608 bytes do not fit: 200704 of 2097152 bytes are taken; free tensors or raise "
       "RUEDA_SHARED_TENSOR_BYTES"},
  };
  for (const Setting& setting : settings) {
    RankProcesses ranks({.size = 2, .body = "rank: allocates as its settings allow", .variables = setting.variables});
    for (const RankOutcome& outcome : ranks.finish()) {
      INFO(outcome.output);
      REQUIRE(outcome.exit_code == 0);
      CHECK(outcome.report("small") == setting.small);
      CHECK(outcome.report("batches") == setting.batches);
      CHECK(outcome.report("large") == setting.large);
    }
  }
}

/// Does nothing but reduce, so that a signal comes in the middle of a batch: averages of ones are ones.
TEST_CASE("rank: averages one tensor for ever and then keeps it", "[.]") {
  rueda_session* session = nullptr;
  REQUIRE(rueda_init(nullptr, &session) == RUEDA_OK);
  const Floats tensor(session, kLong);
  REQUIRE(tensor.shared());
  tensor.fill(1);
  Ending ending;
  for (int step = 0; ending.code == RUEDA_OK; ++step) {
    rueda_op_options options = named("w");
    const CTensor values(tensor.data(), RUEDA_F32, {static_cast<int64_t>(kLong)});
    rueda_handle handle = 0;
    const int32_t code = rueda_allreduce_async(session, values.get(), values.get(), RUEDA_AVERAGE, &options, &handle);
    ending = code == RUEDA_OK ? finish(handle) : Ending{code, rueda_last_error()};
    if (step == 3) {
      expect_all(tensor.data(), kLong, 1, "average");
      rank_report("up");
    }
  }
  // The caller's again: nothing may change it from here on.
  tensor.fill(-7);
  rank_report("lost " + ending.sentence);
  rank_await();
  expect_all(tensor.data(), kLong, -7, "after the failure");
  rank_report("unchanged");
  static_cast<void>(rueda_shutdown(session));
}

TEST_CASE("A rank that is killed in the middle of tensors in shared memory ends the operation on the others") {
  for (int round = 0; round < 4; ++round) {
    RankProcesses ranks({.size = 3, .body = "rank: averages one tensor for ever and then keeps it"});
    ranks.await(round % 3, "up");
    ranks.signal(2, SIGKILL);
    for (const int rank : {0, 1}) {
      CHECK(ranks.await(rank, "lost").find("rank 2") != std::string::npos);
      ranks.tell(rank, "look");
    }
    const std::vector<RankOutcome> outcomes = ranks.finish();
    for (const int rank : {0, 1}) {
      INFO(outcomes[static_cast<size_t>(rank)].output);
      CHECK(outcomes[static_cast<size_t>(rank)].exit_code == 0);
    }
  }
}

TEST_CASE("A rank that was stopped in the middle and goes on later writes into no tensor that its owner has back") {
  for (int round = 0; round < 4; ++round) {
    RankProcesses ranks({.size = 2,
                         .body = "rank: averages one tensor for ever and then keeps it",
                         .variables = {{"RUEDA_PEER_TIMEOUT_SECONDS", "1"}}});
    ranks.await(round % 2, "up");
    ranks.signal(1, SIGSTOP);
    CHECK(ranks.await(0, "lost").find("rank 1") != std::string::npos);
    ranks.signal(1, SIGCONT);
    ranks.await(1, "lost");  // it has finished what it was doing, and found the epoch over
    for (const int rank : {0, 1}) ranks.tell(rank, "look");
    for (const RankOutcome& outcome : ranks.finish()) {
      INFO(outcome.output);
      CHECK(outcome.exit_code == 0);
      CHECK(outcome.report("unchanged").empty());
    }
  }
}

TEST_CASE("rank: forks beside its tensors", "[.]") {
  rueda_session* session = nullptr;
  REQUIRE(rueda_init(nullptr, &session) == RUEDA_OK);
  {
    const Floats tensor(session, kInPlace);
    for (int round = 0; round < 5; ++round) {
      tensor.fill(3);
      const pid_t child = fork();
      if (child == 0) {
        const bool reads = std::all_of(tensor.data(), tensor.data() + kInPlace, [](float each) { return each == 3; });
        tensor.fill(9);
        _exit(reads ? 0 : 1);
      }
      int status = 0;
      REQUIRE(waitpid(child, &status, 0) == child);
      CHECK(status == 0);
      expect_all(tensor.data(), kInPlace, 3, "after the child has written");
      sum_in_place(session, tensor.data(), kInPlace, "w");
    }
    rank_report("batches " + std::to_string(batches_of(session, "shm_shared")));
  }
  REQUIRE(rueda_shutdown(session) == RUEDA_OK);
}

TEST_CASE("A forked child reads its parent's tensors, and what it writes reaches no rank") {
  RankProcesses ranks({.size = 2, .body = "rank: forks beside its tensors"});
  for (const RankOutcome& outcome : ranks.finish()) {
    INFO(outcome.output);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.report("batches") == "5");
  }
}

}  // namespace rueda::test
