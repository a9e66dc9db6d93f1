// A training job that loses the network between its ranks while hvdrun and its agents notice nothing.
#include <algorithm>
#include <catch2/catch.hpp>
#include <future>

#include "tests/launcher/hvdrun_process.h"
#include "tests/support/namespaces.h"
#include "tests/support/netlab.h"

using Catch::Matchers::Contains;
using rueda::core::launcher::HvdrunProcess;
using rueda::test::CommandResult;
using rueda::test::NetLab;
using Words = std::vector<std::string>;

namespace {

const std::string kTraining = RUEDA_TEST_BIN "/train_digits";

/// Returns whether a rank noticed the loss, by silence or by missing acknowledgements.
bool says_who_is_silent(const std::string& errors) {
  return errors.find("silent for RUEDA_PEER_TIMEOUT_SECONDS (5 s)") != std::string::npos ||
         errors.find("has acknowledged nothing that rank ") != std::string::npos;
}

void wait_until_clean(const NetLab& lab, int hosts) {
  for (int host = 0; host < hosts; ++host) {
    for (auto left = lab.processes(host); !left.empty(); left = lab.processes(host)) {
      for (const auto& process : left) HvdrunProcess::wait_for_end_of(process.pid);
    }
  }
}

}  // namespace

TEST_CASE("ranks notice that their network is cut while hvdrun reaches all hosts over another one") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2, .networks = 2});
  HvdrunProcess run({"-H", "10.77.2.1:1,10.77.2.2:2", kTraining, "--epochs", "10000"}, lab.on(0));
  run.read_until("epoch 2/");
  lab.cut(1, 0);
  CHECK(run.wait() == 1);
  INFO(run.err());
  CHECK_THAT(run.err(), Contains("hvdrun: the first to fail: rank "));
  CHECK(says_who_is_silent(run.err()));
  for (const char* rank : {"0", "1", "2"}) CHECK_THAT(run.err(), Contains("[" + std::string(rank) + "]<stderr>:"));
  wait_until_clean(lab, 2);
}

TEST_CASE("ranks notice that two hosts do not reach each other while hvdrun and rank 0 reach both") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 3});
  HvdrunProcess run({"-H", "node1:1,node2:1,node3:1", kTraining, "--epochs", "10000"}, lab.on(0));
  run.read_until("epoch 2/");
  static_cast<void>(lab.shell(1, "ip route add blackhole " + NetLab::address(2) + "/32; ip -6 route add blackhole " +
                                     NetLab::address6(2) + "/128"));
  CHECK(run.wait() == 1);
  INFO(run.err());
  CHECK_THAT(run.err(),
             Contains("hvdrun: the first to fail: rank ") && Contains("has acknowledged nothing that rank "));
  CHECK_THAT(run.err(), !Contains("first to fail: rank 0 "));
  wait_until_clean(lab, 3);
}

TEST_CASE("ranks started by hand notice that a host is lost") {
  NetLab::skip_without();
  const int lost = GENERATE(0, 1);
  const NetLab lab({.hosts = 3});
  std::vector<std::future<CommandResult>> ranks;
  for (int rank = 0; rank < 4; ++rank) {  // one on node1, two on node2, one on node3
    const int host = (rank + 1) / 2;
    lab.write_file(host, "/run/job.key", std::string(32, 'x'));
    static_cast<void>(lab.shell(host, "chmod 600 /run/job.key"));
    Words words = lab.on(host);
    words.insert(words.end(),
                 {"env", "RUEDA_SIZE=4", "RUEDA_RANK=" + std::to_string(rank), "RUEDA_STORE_ADDR=10.77.1.1:23456",
                  "RUEDA_JOB_KEY_FILE=/run/job.key", "sh", "-c", "exec " + kTraining + " --epochs 10000 >/run/out"});
    ranks.push_back(std::async(std::launch::async, [words] { return rueda::test::run_command(words); }));
  }
  // The host is lost in the middle of the job. Rank 0 makes the file when it begins, or a rank ends early: the checks
  // say why.
  const auto ended = [](const auto& rank) {
    return rank.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  while (lab.shell(0, "grep 'epoch 2/' /run/out || true").empty() && std::none_of(ranks.begin(), ranks.end(), ended)) {
  }
  lab.cut(lost);
  std::vector<CommandResult> results;
  for (auto& rank : ranks) results.push_back(rank.get());
  // Of two ranks on one host the second may see the first one end before it notices the silence itself.
  const auto neighbour_says = [&](size_t rank) {
    return (rank == 1 || rank == 2) && says_who_is_silent(results[3 - rank].err) &&
           results[rank].err.find("rank " + std::to_string(3 - rank) + " (host node2, pid ") != std::string::npos;
  };
  for (size_t rank = 0; rank < results.size(); ++rank) {
    INFO(results[rank].err);
    CHECK(results[rank].exit_code == 1);
    CHECK((says_who_is_silent(results[rank].err) || neighbour_says(rank)));
  }
}
