// Ranks of one host name in two sets of namespaces (network, processes, mounts): they see neither the memory nor the
// sockets of the others, as in two containers of one machine.
#include <catch2/catch.hpp>
#include <future>
#include <set>
#include <string>
#include <vector>

#include "tests/examples/train_digits_run.h"
#include "tests/support/namespaces.h"
#include "tests/support/netlab.h"

using Catch::Matchers::Contains;
using rueda::test::CommandResult;
using rueda::test::NetLab;
using Words = std::vector<std::string>;

namespace {

Words rank_on(const NetLab& lab, int rank) {
  Words words = lab.on(rank / 2);
  words.insert(words.end(), {"env", "RUEDA_SIZE=4", "RUEDA_RANK=" + std::to_string(rank), "RUEDA_HOSTNAME=box",
                             "RUEDA_STORE_ADDR=" + NetLab::address(0) + ":23456", "RUEDA_JOB_KEY_FILE=/run/job.key",
                             "RUEDA_HIERARCHICAL_ALLREDUCE=1", "RUEDA_LOG_LEVEL=info",
                             std::string(RUEDA_TEST_BIN) + "/train_digits", "--epochs", "1"});
  return words;
}

}  // namespace

TEST_CASE("ranks of one host name in two containers are two hosts, for algorithms of two levels, too") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  for (int host = 0; host < 2; ++host) {
    lab.write_file(host, "/run/job.key", std::string(32, 'x'));
    static_cast<void>(lab.shell(host, "chmod 600 /run/job.key"));
  }
  std::vector<std::future<CommandResult>> results;
  for (int rank = 0; rank < 4; ++rank) {
    results.push_back(
        std::async(std::launch::async, [words = rank_on(lab, rank)] { return rueda::test::run_command(words); }));
  }
  std::set<std::string> parameters;
  for (size_t rank = 0; rank < 4; ++rank) {
    const CommandResult result = results[rank].get();
    INFO(result.out << result.err);
    CHECK(result.exit_code == 0);
    for (const auto& hash : rueda::test::all_matches(result.out, "rank [0-9]+: parameters ([0-9a-f]{16})"))
      parameters.insert(hash);
    const auto warned = rueda::test::all_matches(result.err, "(no shared memory between [^,]*), which use TCP instead");
    CHECK(warned.size() == (rank == 0 ? 1 : 0));
    if (rank > 0) continue;
    CHECK_THAT(result.err,
               Contains("host box: no shared memory between ranks 0-1 and ranks 2-3, which use TCP instead"));
    CHECK_THAT(result.err, Contains(" takes algorithm hierarchical (ranks: 4, hosts: 2;"));
  }
  CHECK(parameters.size() == 1);
}
