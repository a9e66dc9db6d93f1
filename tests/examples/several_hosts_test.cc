// Runs the examples as a user does on several hosts: namespaces with sshd (tests/support/netlab.h).
#include <signal.h>

#include <catch2/catch.hpp>
#include <future>
#include <set>
#include <string>

#include "tests/examples/train_digits_run.h"
#include "tests/support/namespaces.h"
#include "tests/support/netlab.h"
#include "tests/support/temporary_folder.h"

using Catch::Matchers::Contains;
using rueda::test::CommandResult;
using rueda::test::NetLab;
using Words = std::vector<std::string>;

namespace {

CommandResult hvdrun(const NetLab& lab, const Words& flags, const Words& program, const Words& variables = {}) {
  Words words = lab.on(0);
  words.emplace_back("env");
  words.insert(words.end(), variables.begin(), variables.end());
  words.push_back(std::string(RUEDA_TEST_BIN) + "/hvdrun");
  words.insert(words.end(), flags.begin(), flags.end());
  words.push_back(std::string(RUEDA_TEST_BIN) + "/" + program.front());
  words.insert(words.end(), program.begin() + 1, program.end());
  return rueda::test::run_command(words);
}

// Trains and returns the hash of the parameters, which must be equal on all ranks. If a test compares only hashes, a
// sanitizer trains two epochs.
std::string train(const NetLab& lab, const Words& flags, size_t ranks, size_t epochs = rueda::test::kEpochs) {
  const auto result = hvdrun(lab, flags, {"train_digits", "--epochs", std::to_string(epochs)});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  const auto accuracy = rueda::test::all_matches(result.out, "test accuracy ([0-9.]+) \\([0-9]+ of 360");
  REQUIRE(accuracy.size() == 1);
  if (epochs == rueda::test::kEpochs) CHECK(std::stod(accuracy[0]) >= 0.95);
  const auto hashes = rueda::test::all_matches(result.out, "rank [0-9]+: parameters ([0-9a-f]{16})");
  CHECK(hashes.size() == ranks);
  CHECK(std::set<std::string>(hashes.begin(), hashes.end()).size() == 1);
  return hashes.empty() ? "" : hashes[0];
}

constexpr size_t kBitsEpochs = rueda::core::kThorough ? rueda::test::kEpochs : 2;

}  // namespace

TEST_CASE("the first programs add up the ranks' numbers over two and three uneven hosts") {
  NetLab::skip_without();
  for (const int hosts : {2, 3}) {
    const NetLab lab({.hosts = hosts});
    const std::string list = hosts == 2 ? "node1:3,node2:1" : "node1:1,node2:3,node3:2";
    const int size = hosts == 2 ? 4 : 6;
    for (const char* program : {"hello_allreduce", "hello_allreduce_cpp"}) {
      const auto result = hvdrun(lab, {"-H", list}, {program});
      INFO(list << "\n" << result.out << result.err);
      CHECK(result.exit_code == 0);
      const std::string sum = std::to_string(size * (size - 1) / 2);
      CHECK(rueda::test::all_matches(result.out,
                                     "rank ([0-9]) of " + std::to_string(size) + ": the ranks add up to " + sum)
                .size() == static_cast<size_t>(size));
    }
  }
}

TEST_CASE("in an allocation of PBS or LSF hvdrun uses its hosts and slots and starts agents with ssh") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  lab.write_file(0, "/run/nodes", "node1\nnode2\nnode2\n");  // a line for each slot
  for (const char* variable : {"PBS_NODEFILE=/run/nodes", "LSB_MCPU_HOSTS=node1 1 node2 2"}) {
    const auto all = hvdrun(lab, {"--verbose"}, {"hello_allreduce"}, {variable});
    INFO(variable << "\n" << all.out << all.err);
    CHECK(all.exit_code == 0);
    CHECK(rueda::test::all_matches(all.out, "rank ([0-9]) of 3: the ranks add up to 3").size() == 3);
    for (const char* placed : {"rank 0 (host node1, pid", "rank 1 (host node2, pid", "rank 2 (host node2, pid"}) {
      CHECK_THAT(all.err, Contains(placed));
    }
    const auto more = hvdrun(lab, {"-np", "4"}, {"hello_allreduce"}, {variable});
    CHECK(more.exit_code == 2);
    CHECK_THAT(more.err, Contains("4 processes do not fit into 3 slots on 2 hosts"));
    const auto named = hvdrun(lab, {"-H", "node1:2"}, {"hello_allreduce"}, {variable});
    CHECK_THAT(named.out, Contains("of 2: the ranks add up to 1"));
  }
}

TEST_CASE("training over the control tree gives the same bits as without it") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 3});
  const Words hosts = {"--deterministic", "-H", "node1:2,node2:2,node3:1"};
  Words in_tree = hosts;
  in_tree.emplace_back("--control-tree");
  CHECK(train(lab, in_tree, 5, kBitsEpochs) == train(lab, hosts, 5, kBitsEpochs));
}

TEST_CASE("train_digits trains on two and three uneven hosts") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 3});
  train(lab, {"-H", "node1:3,node2:1"}, 4);
  train(lab, {"-H", "node3:1,node1:1,node2:2"}, 4);
}

TEST_CASE("deterministic sums do not depend on the hosts of the ranks") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  const std::string first = train(lab, {"--deterministic", "-H", "node1:2,node2:2"}, 4, kBitsEpochs);
  CHECK(train(lab, {"--deterministic", "-H", "node2:2,node1:2"}, 4, kBitsEpochs) == first);
}

TEST_CASE("log and timeline show the choice of the hierarchical algorithm") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  const rueda::test::TemporaryFolder folder;
  for (const bool hierarchical : {true, false}) {
    INFO(hierarchical);
    const auto run = hvdrun(lab,
                            {"-H", "node1:2,node2:2", "--log-level", "info", "--timeline-filename", folder.file("line"),
                             hierarchical ? "--hierarchical-allreduce" : "--no-hierarchical-allreduce"},
                            {"train_digits", "--epochs", "1"});
    INFO(run.out << run.err);
    CHECK(run.exit_code == 0);
    CHECK((run.err.find(" takes algorithm hierarchical (ranks: 4, hosts: 2;") != std::string::npos) == hierarchical);
    const std::string timeline = rueda::test::text_of(folder.file("line"));
    CHECK((timeline.find("\"name\":\"hierarchical\"") != std::string::npos) == hierarchical);
  }
}

/// Six ranks started by hand, 0 to 2 on node1 and 3 to 5 on node2. Rank 0 serves the store.
class ByHand {
 public:
  ByHand() : lab_({.hosts = 2}) {
    for (int host = 0; host < 2; ++host) {
      lab_.write_file(host, "/run/job.key", std::string(32, 'x'));
      static_cast<void>(lab_.shell(host, "chmod 600 /run/job.key"));
    }
  }
  void start(const std::vector<int>& ranks) {
    for (const int rank : ranks) {
      Words words = lab_.on(rank / 3);
      words.insert(words.end(), {"env", "RUEDA_SIZE=6", "RUEDA_LOCAL_SIZE=3", "RUEDA_RANK=" + std::to_string(rank),
                                 "RUEDA_LOCAL_RANK=" + std::to_string(rank % 3), "RUEDA_STORE_ADDR=10.77.1.1:23456",
                                 "RUEDA_JOB_KEY_FILE=/run/job.key", "RUEDA_INIT_TIMEOUT_SECONDS=120",
                                 std::string(RUEDA_TEST_BIN) + "/hello_allreduce"});
      ranks_.push_back(std::async(std::launch::async, [words] { return rueda::test::run_command(words); }));
    }
  }
  /// Waits until the three ranks of node2 share a connection to the store. Fails if a rank ends meanwhile, as it does
  /// at the latest when its init has waited for too long.
  void wait_until_node2_shares() {
    while (on(1, "ss -Htn state established src 127.0.0.1 | wc -l") != "6\n") {  // both ends of three
      for (auto& rank : ranks_) {
        if (rank.wait_for(std::chrono::seconds(0)) != std::future_status::ready) continue;
        const CommandResult ended = rank.get();
        FAIL("a rank ended with code " << ended.exit_code << ":\n" << ended.out << ended.err);
      }
    }
  }
  std::string on(int host, const std::string& line) const { return lab_.shell(host, line); }
  /// Kills each process that holds a TCP socket matching the filter of ss.
  void kill_owner(int host, const std::string& filter) const {
    static_cast<void>(on(host, "kill -9 $(ss -Htnp " + filter + " | sed -n 's/.*pid=\\([0-9]*\\).*/\\1/p' | sort -u)"));
  }
  /// Waits for the rank that was started as the `index`th.
  CommandResult result(size_t index) { return ranks_.at(index).get(); }

 private:
  NetLab lab_;
  std::vector<std::future<CommandResult>> ranks_;
};

TEST_CASE("ranks started by hand share one connection per host to rank 0's store") {
  NetLab::skip_without();
  ByHand job;
  job.start({0, 3, 4, 5});
  job.wait_until_node2_shares();
  CHECK(job.on(1, "ss -Htn state established dport = :23456 | wc -l") == "1\n");
  job.start({1, 2});
  for (size_t index = 0; index < 6; ++index) {
    const CommandResult result = job.result(index);
    INFO(result.out << result.err);
    CHECK(result.exit_code == 0);
    CHECK(result.out.find(" of 6: the ranks add up to 15\n") != std::string::npos);
  }
}

TEST_CASE("ranks learn of the death of the rank through which they reach the store") {
  NetLab::skip_without();
  ByHand job;
  job.start({0, 3, 4, 5});
  job.wait_until_node2_shares();
  job.kill_owner(1, "state established dport = :23456");
  job.kill_owner(0,
                 "state listening sport = :23456");  // else a rank that is still joining reconnects and waits
  CHECK(job.result(0).exit_code == 128 + SIGKILL);
  int killed = 0;
  for (const size_t index : {1u, 2u, 3u}) {
    const CommandResult result = job.result(index);
    INFO(result.out << result.err);
    CHECK(result.exit_code != 0);
    if (result.exit_code == 128 + SIGKILL) {
      ++killed;
    } else {
      CHECK_THAT(result.err, Contains("another rank of this host relayed the store and has ended") ||
                                 Contains("store at 10.77.1.1:23456"));
    }
  }
  CHECK(killed == 1);
}
