// The examples as a user runs them on several hosts: namespaces with sshd (tests/support/netlab.h).
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "tests/examples/train_digits_run.h"
#include "tests/support/namespaces.h"
#include "tests/support/netlab.h"

using rueda::test::CommandResult;
using rueda::test::NetLab;
using Words = std::vector<std::string>;

namespace {

CommandResult hvdrun(const NetLab& lab, const Words& flags, const Words& program) {
  Words words = lab.on(0);
  words.push_back(std::string(RUEDA_TEST_BIN) + "/hvdrun");
  words.insert(words.end(), flags.begin(), flags.end());
  words.push_back(std::string(RUEDA_TEST_BIN) + "/" + program.front());
  words.insert(words.end(), program.begin() + 1, program.end());
  return rueda::test::run_command(words);
}

// The hash of the parameters, which all ranks have. Where only that matters two epochs are enough for a sanitizer.
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

TEST_CASE("agreement that leaders of hosts pass on trains to the same bits") {
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

TEST_CASE("with deterministic sums the bits do not depend on which hosts the ranks are on") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2});
  const std::string first = train(lab, {"--deterministic", "-H", "node1:2,node2:2"}, 4, kBitsEpochs);
  CHECK(train(lab, {"--deterministic", "-H", "node2:2,node1:2"}, 4, kBitsEpochs) == first);
}
