// Lanes that follow their callers in a real job: as many ranks as cores, each with its caller on the next one's core.
// Another session that has claimed these cores would keep them, so nothing else may run beside this.
#include <sched.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/engine/core_claim.h"
#include "tests/bindings/operations.h"
#include "tests/support/rank_processes.h"
#include "tests/support/temporary_folder.h"

namespace rueda::test {
namespace {

constexpr size_t kMostRanks = 16;

/// The cores of the first lane's thread of this process; empty if there is none.
std::vector<int> cores_of_lane() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (text_of((task.path() / "comm").string()) != "rueda-lane-0\n") continue;
    cpu_set_t set;
    REQUIRE(::sched_getaffinity(std::stoi(task.path().filename().string()), sizeof set, &set) == 0);
    std::vector<int> cores;
    for (size_t core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.push_back(static_cast<int>(core));
    }
    return cores;
  }
  return {};
}

void move_caller_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(core), &set);
  REQUIRE(::sched_setaffinity(0, sizeof set, &set) == 0);
}

}  // namespace

TEST_CASE("rank: has its caller on the next rank's core", "[.]") {
  const std::vector<int> cores = core::allowed_cores();
  rueda_session* session = nullptr;
  REQUIRE(rueda_init(nullptr, &session) == RUEDA_OK);
  const int away = cores[static_cast<size_t>(rueda_rank(session) + 1) % cores.size()];
  move_caller_to(away);
  std::vector<float> values(1 << 18);
  std::vector<float> elsewhere{1};
  for (int round = 0; round < 3000 && elsewhere[0] > 0; ++round) {
    REQUIRE(sum(session, values, "large") == RUEDA_OK);
    elsewhere[0] = cores_of_lane() == std::vector{away} ? 0 : 1;
    REQUIRE(sum(session, elsewhere, "lanes elsewhere") == RUEDA_OK);
  }
  CHECK(elsewhere[0] == 0);
  CHECK(core::allowed_cores() == std::vector{away});
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

TEST_CASE("with as many ranks as cores, lanes go where their callers are") {
  const size_t ranks = core::allowed_cores().size();
  if (ranks > kMostRanks || core::share_of_cores(0, static_cast<int>(ranks)).size() != 1) {
    WARN(ranks << " cores, or a part of them: this shows nothing here");
    return;
  }
  RankProcesses processes({.size = static_cast<int>(ranks), .body = "rank: has its caller on the next rank's core"});
  for (const RankOutcome& outcome : processes.finish()) {
    INFO(outcome.output);
    CHECK(outcome.exit_code == 0);
  }
}

}  // namespace rueda::test
