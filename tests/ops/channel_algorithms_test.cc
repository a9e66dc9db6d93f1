#include <catch2/catch.hpp>
#include <set>

#include "ops/select.h"
#include "tests/support/collective_case.h"
#include "tests/support/lane_ranks.h"
#include "tests/support/memory_channels.h"
#include "tests/support/tcp_ranks.h"

using namespace rueda::core;

namespace {

std::vector<const Algorithm*> channel_algorithms_of(OpKind kind) {
  std::vector<const Algorithm*> tested = channel_algorithms();
  std::erase_if(tested, [kind](const Algorithm* one) { return one->kind != kind; });
  return tested;
}

/// Every rank a host of its own.
LaneRanks::Options apart(int size) {
  LaneRanks::Options options;
  for (int rank = 0; rank < size; ++rank) options.hosts.push_back(rank);
  return options;
}

BatchShape shape_on_hosts(uint64_t bytes, ReduceOp op, Dtype dtype) {
  BatchShape shape;
  shape.bytes = bytes;
  shape.op = op;
  shape.dtype = dtype;
  shape.ranks = 4;
  shape.one_host = false;
  return shape;
}

std::string algorithm_for(const BatchShape& shape, const Settings& settings) {
  const auto choice = select_algorithm(algorithms(), settings, shape);
  return choice.ok() ? algorithms()[choice.value().algorithm].name : choice.status().sentence();
}

/// Bytes that each rank sends for `test`, by the memory channels' count.
std::vector<uint64_t> bytes_sent(const Algorithm& algorithm, const CollectiveCase& test, int size) {
  MemoryHub hub;
  LaneRanks::Options options = apart(size);
  options.channels = [&](int rank, const Abort& abort) { return hub.channel_set(rank, abort); };
  options.wake_channels = [&] { hub.wake_all(); };
  LaneRanks lanes(size, options);
  CHECK(lanes.first_failure([&](int rank, Mesh& mesh) {
    uint64_t stamp = 0;
    return run_case(algorithm, test, team_of(size, rank), mesh, stamp);
  }) == "");
  std::vector<uint64_t> sent(static_cast<size_t>(size));
  for (int from = 0; from < size; ++from) {
    for (int to = 0; to < size; ++to) sent[static_cast<size_t>(from)] += hub.moved(from, to);
  }
  return sent;
}

}  // namespace

TEST_CASE(
    "The table has an algorithm over channels for every kind of operation, among them those that every build has") {
  for (const OpKindFacts& facts : kOpKinds) {
    const OpKind kind = facts.kind;
    INFO(name_of(kind));
    CHECK_FALSE(channel_algorithms_of(kind).empty());
  }
  std::set<std::string> names;
  for (const Algorithm* algorithm : channel_algorithms()) names.insert(algorithm->name);
  for (const char* known : {"direct", "ring", "doubling", "broadcast_tree", "channel_barrier", "channel_send",
                            "direct_reducescatter", "direct_allgather"}) {
    INFO(known);
    CHECK(names.count(known) == 1);
  }
  CHECK(names.count("shm_two_shot") + names.count("hierarchical") + names.count("local") == 0);
}

TEST_CASE("Channel algorithms give the formula's results over TCP") {
  for (const int size : {2, 3, 4}) {
    TcpRanks tcp(size);
    LaneRanks::Options options = apart(size);
    options.channels = [&](int rank, const Abort& abort) { return tcp.transport(rank).channel_set(0, abort); };
    options.wake_channels = [&] {
      for (int rank = 0; rank < size; ++rank) tcp.transport(rank).wake_all();
    };
    LaneRanks lanes(size, options);
    for (const OpKindFacts& facts : kOpKinds) {
      const OpKind kind = facts.kind;
      for (const Algorithm* algorithm : channel_algorithms_of(kind)) {
        INFO("algorithm " << algorithm->name << " at np " << size);
        CHECK(lanes.first_failure([&](int rank, Mesh& mesh) -> Status {
          const Team team = team_of(size, rank);
          uint64_t stamp = 0;
          CollectiveCase test;
          test.kind = kind;
          test.root = kind == OpKind::kBroadcast || kind == OpKind::kSend ? size - 1 : 0;
          for (const std::vector<int64_t>& counts : {std::vector<int64_t>{1}, {0}, {1000, 3}, {200'003}}) {
            test.counts = kind == OpKind::kBarrier ? std::vector<int64_t>{} : counts;
            RUEDA_RETURN_IF_ERROR(run_case(*algorithm, test, team, mesh, stamp));
            RUEDA_RETURN_IF_ERROR(run_case(*algorithm, test, team, mesh, stamp, 65'536));
          }
          return {};
        }) == "");
      }
    }
  }
}

TEST_CASE(
    "The bandwidth-optimal algorithms send 2 (N-1)/N of the batch from every rank, and codecs halve what they may") {
  CollectiveCase test;
  const int size = 4;
  test.counts = {1 << 18};
  const uint64_t all = uint64_t{4} << 18;
  const std::vector<uint64_t> optimal(size, 2 * all * (size - 1) / size);
  CHECK(bytes_sent(algorithm_named("direct"), test, size) == optimal);
  CHECK(bytes_sent(algorithm_named("ring"), test, size) == optimal);
  test.codec = CodecId::kFp16;
  CHECK(bytes_sent(algorithm_named("direct"), test, size) == std::vector<uint64_t>(size, optimal[0] / 2));
  // Partial sums travel in fp32, results in fp16.
  CHECK(bytes_sent(algorithm_named("ring"), test, size) ==
        std::vector<uint64_t>(size, optimal[0] / 2 + optimal[0] / 4));
}

TEST_CASE("A reduce-scatter over channels sends (N-1)/N of the batch from every rank") {
  CollectiveCase test;
  test.kind = OpKind::kReducescatter;
  test.counts = {1 << 18};
  const uint64_t optimal = (uint64_t{4} << 18) * 3 / 4;
  CHECK(bytes_sent(algorithm_named("direct_reducescatter"), test, 4) == std::vector<uint64_t>(4, optimal));
  test.codec = CodecId::kFp16;
  CHECK(bytes_sent(algorithm_named("direct_reducescatter"), test, 4) == std::vector<uint64_t>(4, optimal / 2));
}

TEST_CASE("Doubling sends the batch log2(N) times, and a tree N-1 times in all") {
  CollectiveCase test;
  test.counts = {100};
  CHECK(bytes_sent(algorithm_named("doubling"), test, 8) == std::vector<uint64_t>(8, 3 * 400));
  // Of 5 members one hands its input over and gets the result back.
  CHECK(bytes_sent(algorithm_named("doubling"), test, 5) == std::vector<uint64_t>{400, 1200, 800, 800, 800});
  test.kind = OpKind::kBroadcast;
  CHECK(bytes_sent(algorithm_named("broadcast_tree"), test, 8) ==
        std::vector<uint64_t>{1200, 0, 400, 0, 800, 0, 400, 0});
}

TEST_CASE("A postscaled sum of integers is exact before it is scaled, whatever algorithm was asked for") {
  CollectiveCase test;
  test.dtype = Dtype::kI8;
  test.counts = {100};
  test.prescale = 60;
  test.postscale = 0.25;
  for (const Algorithm* algorithm : channel_algorithms_of(OpKind::kAllreduce)) bytes_sent(*algorithm, test, 3);
}

TEST_CASE("On several hosts short batches double, long and deterministic ones go direct") {
  Settings settings;
  CHECK(algorithm_for(shape_on_hosts(1024, ReduceOp::kSum, Dtype::kF32), settings) == "doubling");
  CHECK(algorithm_for(shape_on_hosts(1 << 20, ReduceOp::kSum, Dtype::kF32), settings) == "direct");
  CHECK(algorithm_for(shape_on_hosts(1024, ReduceOp::kAverage, Dtype::kI32), settings) == "direct");
  settings.deterministic = true;
  CHECK(algorithm_for(shape_on_hosts(1024, ReduceOp::kSum, Dtype::kF32), settings) == "direct");
  settings.deterministic = false;
  settings.allreduce_algorithm = "ring";
  CHECK(algorithm_for(shape_on_hosts(1024, ReduceOp::kSum, Dtype::kF32), settings) == "ring");
}

TEST_CASE("A channel algorithm on a lane without channels says so") {
  LaneRanks lanes(2);
  for (const OpKindFacts& facts : kOpKinds) {
    const OpKind kind = facts.kind;
    for (const Algorithm* algorithm : channel_algorithms_of(kind)) {
      CollectiveCase test;
      test.kind = kind;
      const auto results = lanes.run([&](int rank, Mesh& mesh) {
        uint64_t stamp = 0;
        return run_case(*algorithm, test, team_of(2, rank), mesh, stamp);
      });
      CHECK(results[0].code() == Code::kUnsupported);
    }
  }
}
