// The pure parts: plan, partition, admission, records, death verdicts.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "runtime/rendezvous/admission.h"
#include "runtime/rendezvous/locality.h"
#include "runtime/rendezvous/wish.h"
#include "runtime/store/death.h"
#include "tests/support/scale.h"

namespace rueda::core {
namespace {

using Catch::Matchers::Contains;

EpochPlan plan_of(std::vector<int> host_of, int rank) {
  EpochPlan plan;
  plan.rank = rank;
  plan.size = static_cast<int>(host_of.size());
  plan.host_of = std::move(host_of);
  return plan;
}

std::vector<Endpoint> endpoints(const std::vector<std::string>& hosts) {
  std::vector<Endpoint> ranks;
  for (const auto& host : hosts) {
    Endpoint endpoint;
    endpoint.host = host;
    endpoint.pid = 10 + static_cast<int64_t>(ranks.size());
    endpoint.addresses = {"10.0.0.1", "::1"};
    endpoint.port = 4000;
    endpoint.unix_name = "u";
    ranks.push_back(endpoint);
  }
  return ranks;
}

Wish wish_of(int rank, int size) {
  Wish wish;
  wish.build = "b1";
  wish.nonce = "n" + std::to_string(rank);
  wish.rank = rank;
  wish.size = size;
  wish.endpoint = endpoints({"a"})[0];
  wish.agreed = print_agreed(Settings());
  return wish;
}

TEST_CASE("local and cross numbers hold on uneven hosts") {
  const std::vector<int> hosts = {0, 0, 1, 0};  // 3 + 1
  const struct {
    int local_rank, local_size, cross_rank, cross_size;
  } expected[] = {{0, 3, 0, 2}, {1, 3, 0, 1}, {0, 1, 1, 2}, {2, 3, 0, 1}};
  for (int rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    const EpochPlan plan = plan_of(hosts, rank);
    const auto& row = expected[rank];
    CHECK(plan.local_rank() == row.local_rank);
    CHECK(plan.local_size() == row.local_size);
    CHECK(plan.cross_rank() == row.cross_rank);
    CHECK(plan.cross_size() == row.cross_size);
    CHECK_FALSE(plan.homogeneous());
  }
  CHECK(plan_of(hosts, 3).local_ranks() == std::vector<int>{0, 1, 3});
  CHECK(plan_of({0, 1, 0, 1}, 0).homogeneous());
}

TEST_CASE("hosts are numbered by their lowest rank") {
  const auto ranks = endpoints({"b", "a", "b", "a"});
  CHECK(partition(ranks, std::vector<LocalReport>(4)) == std::vector<int>{0, 1, 0, 1});
  CHECK(neighbours(ranks, 0) == std::vector<int>{2});
  CHECK(neighbours(ranks, 3) == std::vector<int>{1});
}

TEST_CASE("ranks of a failed pair are on two hosts, so that sharing is a partition") {
  const auto ranks = endpoints({"a", "a", "a", "a"});
  std::vector<LocalReport> reports(4);
  reports[3].failures.push_back({1, "no memfd"});  // only one side saw it
  const std::vector<int> hosts = {0, 0, 0, 1};
  CHECK(partition(ranks, reports) == hosts);
  CHECK(why_apart(ranks, reports, hosts, "TCP") ==
        "init: host a: no shared memory between ranks 0-2 and rank 3, which use TCP instead; rank 3 with rank 1: no "
        "memfd");
  reports[0].failures.push_back({99, "out of range is ignored"});
  CHECK(partition(ranks, reports) == hosts);
  CHECK(why_apart(ranks, std::vector<LocalReport>(4), std::vector<int>(4), "TCP").empty());
  std::vector<LocalReport> strange(4);
  strange[0].failures.push_back({99, "out of range"});
  CHECK(why_apart(ranks, strange, partition(ranks, strange), "TCP").empty());
}

TEST_CASE("a rank that reports itself has a host of its own, and its reason goes before what its peers saw") {
  const auto ranks = endpoints({"a", "a", "a", "a"});
  std::vector<LocalReport> reports(4);
  reports[0].failures.push_back({1, "gone"});
  reports[1].failures.push_back({1, "no memfd"});
  const std::vector<int> hosts = {0, 1, 0, 0};
  CHECK(partition(ranks, reports) == hosts);
  CHECK(why_apart(ranks, reports, hosts, "MPI") ==
        "init: host a: no shared memory between rank 0, ranks 2-3 and rank 1, which use MPI instead; rank 1: no memfd");
}

TEST_CASE("a sentence about many groups names four") {
  const auto ranks = endpoints(std::vector<std::string>(9, "a"));
  std::vector<LocalReport> reports(9);
  for (int rank = 0; rank < 9; ++rank) reports[static_cast<size_t>(rank)].failures.push_back({rank, "no memfd"});
  CHECK(why_apart(ranks, reports, partition(ranks, reports), "TCP") ==
        "init: host a: no shared memory between rank 0 and rank 1 and rank 2 and rank 3 and 5 more groups of ranks, "
        "which "
        "use TCP instead; rank 0: no memfd");
}

TEST_CASE("two machines of one name are two hosts") {
  const auto ranks = endpoints({"localhost", "localhost", "localhost", "localhost"});
  std::vector<LocalReport> reports(4);
  for (int rank = 0; rank < 4; ++rank) {
    for (const int other : rank < 2 ? std::vector<int>{2, 3} : std::vector<int>{0, 1}) {
      reports[static_cast<size_t>(rank)].failures.push_back({other, "no answer"});
    }
  }
  CHECK(partition(ranks, reports) == std::vector<int>{0, 0, 1, 1});
}

TEST_CASE("a layout keeps its budget whatever lanes and ranks") {
  for (int lanes = 1; lanes <= 16; ++lanes) {
    for (const int ranks : {1, 2, 16, 33, 128}) {
      Settings settings;
      settings.num_lanes = lanes;
      const SegmentLayout layout = layout_for(settings, ranks);
      CAPTURE(lanes, ranks, layout.slot_bytes, layout.ring_bytes);
      CHECK(layout.total_bytes() <= 20u << 20);
      CHECK(layout.slot_bytes >= 64u << 10);
      CHECK(layout.rings == ranks);
      CHECK((layout.ring_bytes & (layout.ring_bytes - 1)) == 0);
    }
  }
}

TEST_CASE("ranks that agree are admitted") {
  std::vector<Wish> wishes = {wish_of(0, 2), wish_of(1, 2)};
  CHECK(admit(wishes).ok());
  CHECK(overruled(wishes).empty());
}

TEST_CASE("another protocol is told from rank and build alone") {
  std::vector<Wish> wishes = {wish_of(0, 2), wish_of(1, 2)};
  wishes[1].protocol = 99;
  wishes[1].agreed.clear();
  const Status status = admit(wishes);
  CHECK(status.code() == Code::kMismatch);
  CHECK_THAT(status.sentence(), Contains("protocol: \"" + std::to_string(kProtocolNumber) +
                                         "\" on rank 0 (host a), \"99\" on rank 1 (host a)"));
  CHECK_THAT(status.sentence(), !Contains("RUEDA_"));
}

TEST_CASE("ranks that were told different sizes are refused") {
  std::vector<Wish> wishes = {wish_of(0, 2), wish_of(1, 3)};
  CHECK_THAT(admit(wishes).sentence(), Contains("size of the job: \"2\" on rank 0 (host a), \"3\" on rank 1 (host a)"));
}

TEST_CASE("each policy in which a rank differs is one sentence") {
  std::vector<Wish> wishes = {wish_of(0, 2), wish_of(1, 2)};
  Settings other;
  other.num_lanes = 2;
  other.allreduce_algorithm = "ring";
  wishes[1].agreed = print_agreed(other);
  CHECK(admit(wishes).ok());
  const auto sentences = overruled(wishes);
  REQUIRE(sentences.size() == 2);
  CHECK(sentences[1] ==
        "RUEDA_NUM_LANES is \"4\" on rank 0 (host a), \"2\" on rank 1 (host a); rank 0's value holds for all");
}

TEST_CASE("records come back as they were written") {
  const Wish wish = wish_of(3, 8);
  const Wish same = decode_wish(encode(wish)).value();
  CHECK(same.nonce == wish.nonce);
  CHECK(same.rank == 3);
  CHECK(same.endpoint.addresses == wish.endpoint.addresses);
  CHECK(same.agreed == wish.agreed);
  World world;
  world.ranks = endpoints({"a", "b"});
  world.key.present = true;
  world.key.bytes.fill(5);
  const World same_world = decode_world(encode(world)).value();
  CHECK(same_world.ranks[1].host == "b");
  CHECK(same_world.key.bytes == world.key.bytes);
  LocalReport report;
  report.status = Status(Code::kSystem, "no memory", 2);
  report.failures.push_back({1, "why"});
  const LocalReport same_report = decode_local_report(encode(report)).value();
  CHECK(same_report.status.sentence() == "no memory");
  CHECK(same_report.failures[0].reason == "why");
  CHECK(decode_numbers(encode(Status(), {0, 1, UINT64_MAX})).value() == std::vector<uint64_t>{0, 1, UINT64_MAX});
  const auto failed = decode_numbers(encode(Status(Code::kTimeout, "late", 4), {}));
  CHECK(failed.status().code() == Code::kTimeout);
  CHECK(failed.status().rank() == 4);
}

TEST_CASE("no truncation and no wrong byte of a record is read past its end") {
  World world;
  world.ranks = endpoints({"a", "b"});
  LocalReport report;
  report.failures.push_back({1, "why"});
  for (const std::string& whole : {encode(wish_of(0, 2)), encode(world), encode(report), encode(Status(), {1, 2})}) {
    for (size_t length = 0; length < whole.size(); ++length) {
      const std::string cut = whole.substr(0, length);
      CHECK_FALSE(decode_wish(cut).ok());
      CHECK_FALSE(decode_world(cut).ok());
      CHECK_FALSE(decode_local_report(cut).ok());
      CHECK_FALSE(decode_numbers(cut).ok());
      std::string wrong = whole;
      wrong[length] = static_cast<char>(wrong[length] ^ 0xff);
      static_cast<void>(
          decode_wish(wrong));  // may be another valid record; what counts is that the sanitizers are silent
      static_cast<void>(decode_world(wrong));
      static_cast<void>(decode_local_report(wrong));
      static_cast<void>(decode_numbers(wrong));
    }
  }
}

TEST_CASE("a death verdict comes back and says who died and of what") {
  const DeathVerdict verdict{4, 1, "a", 123, "killed by signal 9 (Killed)"};
  const auto same = decode_death(encode(verdict));
  REQUIRE(same.has_value());
  CHECK(same->epoch == 4);
  CHECK(same->status().code() == Code::kPeerLost);
  CHECK(same->status().rank() == 1);
  CHECK(same->status().sentence() == "rank 1 (host a, pid 123) died: killed by signal 9 (Killed)");
  const std::string whole = encode(verdict);
  for (size_t length = 0; length < whole.size(); ++length)
    CHECK_FALSE(decode_death(whole.substr(0, length)).has_value());
  CHECK_FALSE(decode_death(whole + "x").has_value());
}

}  // namespace
TEST_CASE("an arena has the size that is set, else its rank's part of half the memory, less in a small address space") {
  Settings settings;
  const uint64_t memory = uint64_t(::sysconf(_SC_PHYS_PAGES)) * uint64_t(::sysconf(_SC_PAGESIZE));
  if (!kThorough) return;  // sanitizers map more than any limit
  CHECK(arena_bytes(settings, 2) == memory / 4);
  CHECK(arena_bytes(settings, 1 << 30) == size_t{1} << 20);
  settings.shared_tensor_bytes = 12345;
  CHECK(arena_bytes(settings, 2) == 12345);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit space{uint64_t{1} << 32, uint64_t{1} << 32};
    ::_exit(::setrlimit(RLIMIT_AS, &space) == 0 && arena_bytes(Settings(), 4) <= uint64_t{1} << 28 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

}  // namespace rueda::core
