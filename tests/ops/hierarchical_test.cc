// All-reduce and all-gather in two levels, over shared memory inside each of several hosts and channels between them.
#include <catch2/catch.hpp>
#include <cstring>

#include "ops/select.h"
#include "tests/ops/table_rig.h"
#include "tests/support/collective_case.h"
#include "tests/support/tcp_ranks.h"

using namespace rueda::core;

namespace {

/// Ranks per host.
using Hosts = std::vector<int>;

int size_of_job(const Hosts& hosts) {
  int size = 0;
  for (const int ranks : hosts) size += ranks;
  return size;
}

LaneRanks::Options on_hosts(const Hosts& hosts) {
  LaneRanks::Options options;
  for (size_t host = 0; host < hosts.size(); ++host) {
    options.hosts.insert(options.hosts.end(), static_cast<size_t>(hosts[host]), static_cast<int>(host));
  }
  return options;
}

Team team_on(const Hosts& hosts, int rank) {
  Team team = team_of(size_of_job(hosts), rank);
  team.groups = hosts;
  team.hosts = hosts;
  team.one_host = false;
  return team;
}

BatchShape shape_on(const Hosts& hosts, const CollectiveCase& test) {
  BatchShape shape = test.shape(size_of_job(hosts));
  shape.one_host = false;
  shape.hosts = static_cast<int>(hosts.size());
  shape.largest_host = *std::max_element(hosts.begin(), hosts.end());
  return shape;
}

/// One lane a rank, with channels in memory that count bytes.
class HostsRig {
 public:
  explicit HostsRig(Hosts hosts) : hosts_(std::move(hosts)), lanes_(size_of_job(hosts_), options()) {}

  /// Runs the case on all ranks; "" or the first failure.
  std::string run(const Algorithm& algorithm, const CollectiveCase& test, uint32_t chunk_bytes = 0) {
    const uint64_t first = stamp_;
    stamp_ += 1 << 16;
    return lanes_.first_failure([&](int rank, Mesh& mesh) {
      const Team team = team_on(hosts_, rank);
      uint64_t stamp = first;
      return run_case(algorithm, test, team, mesh, stamp, chunk_bytes);
    });
  }
  /// The bits that every rank ends with; a failure names the first rank with others.
  std::vector<std::byte> bits(const Algorithm& algorithm, const CollectiveCase& test) {
    const uint64_t first = stamp_;
    stamp_ += 1 << 16;
    std::vector<std::vector<std::byte>> results(static_cast<size_t>(lanes_.size()));
    CHECK(lanes_.first_failure([&](int rank, Mesh& mesh) {
      const Team team = team_on(hosts_, rank);
      const CaseTensors tensors(test, team);
      Status status =
          algorithm.run(tensors.call(algorithm.plan(shape_on(hosts_, test)), first), mesh, Deadline::never());
      results[static_cast<size_t>(rank)] = tensors.results();
      return status;
    }) == "");
    for (const auto& result : results) CHECK(result == results.front());
    return results.front();
  }
  uint64_t sent_across() const {
    uint64_t bytes = 0;
    for (int from = 0; from < lanes_.size(); ++from) {
      for (int to = 0; to < lanes_.size(); ++to) bytes += hub_.moved(from, to);
    }
    return bytes;
  }

 private:
  LaneRanks::Options options() {
    LaneRanks::Options options = on_hosts(hosts_);
    options.channels = [this](int rank, const Abort& abort) { return hub_.channel_set(rank, abort); };
    options.wake_channels = [this] { hub_.wake_all(); };
    return options;
  }
  Hosts hosts_;
  MemoryHub hub_;
  LaneRanks lanes_;
  uint64_t stamp_ = 0;
};

constexpr const char* kTwoLevel[] = {"hierarchical", "hierarchical_narrow"};

CollectiveCase gathering(Dtype dtype, int64_t row, std::vector<int64_t> counts) {
  CollectiveCase test;
  test.kind = OpKind::kAllgather;
  test.dtype = dtype;
  test.row = row;
  test.counts = std::move(counts);
  return test;
}

/// Wants nothing of what arrives, as a caller does if its memory has another shape.
class Nowhere : public Arrivals {
 public:
  std::byte* place(size_t, std::span<const int64_t>) override { return nullptr; }
};

}  // namespace

TEST_CASE("Two-level algorithms give the formula's result on even and uneven hosts") {
  for (const Hosts& hosts : {Hosts{2, 2}, Hosts{3, 1}, Hosts{1, 4}, Hosts{2, 2, 2}, Hosts{4, 3, 1}}) {
    HostsRig rig(hosts);
    const int size = size_of_job(hosts);
    for (const char* name : kTwoLevel) {
      const Algorithm& algorithm = algorithm_named(name);
      for (const Dtype dtype :
           {Dtype::kU8, Dtype::kI32, Dtype::kF16, Dtype::kBf16, Dtype::kF32, Dtype::kF64, Dtype::kBool}) {
        for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kProduct}) {
          const CollectiveCase test = reduction(dtype, op, {0, 1, size, 1000, 40000});
          if (!algorithm.fits(shape_on(hosts, test))) continue;
          INFO(name << " on " << hosts.size() << " hosts, " << size << " ranks: " << test.text());
          CHECK(rig.run(algorithm, test) == "");
        }
      }
    }
  }
}

TEST_CASE("Two-level algorithms are right wherever chunks and slices end") {
  for (const Hosts& hosts : {Hosts{2, 2}, Hosts{3, 2}}) {
    HostsRig rig(hosts);
    for (const char* name : kTwoLevel) {
      for (const int64_t count : {int64_t{0}, int64_t{16383}, int64_t{16384}, int64_t{16385}, scaled_down(400'003)}) {
        CollectiveCase test = reduction(Dtype::kF32, ReduceOp::kAverage, {count});
        test.codec = CodecId::kFp16;
        INFO(name << ", " << count << " elements");
        CHECK(rig.run(algorithm_named(name), test, 65536) == "");
      }
    }
  }
}

TEST_CASE("Two-level algorithms run in two slots, in three and in all, one batch after the other") {
  for (const Hosts& hosts : {Hosts{2, 2}, Hosts{3, 1}}) {
    HostsRig rig(hosts);
    for (const int slots : {2, 3, 0, 2, 4, 3, 2}) {
      CollectiveCase sum = reduction(Dtype::kBf16, ReduceOp::kSum, {3, 30'001});
      CollectiveCase gather = gathering(Dtype::kF32, 1, {15'001, 3});
      sum.lane_slots = gather.lane_slots = static_cast<uint8_t>(slots);
      INFO(slots << " slots");
      for (const char* name : kTwoLevel) CHECK(rig.run(algorithm_named(name), sum, 4096) == "");
      CHECK(rig.run(algorithm_named("hierarchical_allgather"), gather, 4096) == "");
    }
  }
}

TEST_CASE("The two-level sum has the bits of the flat canonical one") {
  for (const Hosts& hosts : {Hosts{2, 2}, Hosts{3, 1}, Hosts{2, 3, 2}}) {
    HostsRig rig(hosts);
    for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBf16, Dtype::kF64}) {
      CollectiveCase test = reduction(dtype, ReduceOp::kAverage, {3, 9001, 0, 20000});
      test.values = CollectiveCase::Values::kRounding;
      test.prescale = 1.0 / 3.0;
      test.postscale = 1.7;
      INFO(test.text());
      CHECK(rig.bits(algorithm_named("hierarchical"), test) == rig.bits(algorithm_named("direct"), test));
    }
  }
}

TEST_CASE("Sums of 16 bits that travel narrow do not overflow on the way") {
  // Each host's sum of four is above what fp16 holds; the average is not.
  HostsRig rig({4, 4});
  CollectiveCase test = reduction(Dtype::kF16, ReduceOp::kAverage, {5000});
  test.prescale = 1024;
  CHECK(rig.run(algorithm_named("hierarchical_narrow"), test) == "");
}

TEST_CASE("Each host sends its part of the batch once, whatever its ranks, and half of it in 16 bits") {
  const CollectiveCase plain = reduction(Dtype::kF32, ReduceOp::kSum, {1 << 18});
  const uint64_t bytes = uint64_t{4} << 18;
  HostsRig rig({2, 2});
  CHECK(rig.run(algorithm_named("hierarchical"), plain) == "");
  CHECK(rig.sent_across() == 2 * bytes);  // of two hosts, 2 (H-1)/H each
  CollectiveCase half = plain;
  half.codec = CodecId::kFp16;
  HostsRig narrow({2, 2});
  CHECK(narrow.run(algorithm_named("hierarchical_narrow"), half) == "");
  CHECK(narrow.sent_across() == bytes);
  HostsRig exact({2, 2});
  CHECK(exact.run(algorithm_named("hierarchical"), half) == "");
  CHECK(exact.sent_across() == bytes + bytes / 2);  // sums in fp32, results in fp16
}

TEST_CASE("The two-level all-gather puts rows in the order of ranks, on even and uneven hosts") {
  for (const Hosts& hosts : {Hosts{2, 2}, Hosts{3, 1}, Hosts{1, 4}, Hosts{2, 2, 2}, Hosts{4, 3, 1}, Hosts{2, 5}}) {
    HostsRig rig(hosts);
    const Algorithm& algorithm = algorithm_named("hierarchical_allgather");
    for (const uint32_t chunk_bytes : {0u, 64u, 4096u}) {  // 64: counts alone fill several
      for (const std::vector<int64_t>& counts :
           {std::vector<int64_t>{0}, {1}, {100, 0, 7}, {5, 5, 5, 5, 5, 5, 5, 5, 5}, {scaled_down(3001)}}) {
        const CollectiveCase test = gathering(counts.size() % 2 == 0 ? Dtype::kI64 : Dtype::kU8, 3, counts);
        INFO(hosts.size() << " hosts, chunks of " << chunk_bytes << ": " << test.text());
        CHECK(rig.run(algorithm, test, chunk_bytes) == "");
      }
    }
  }
}

TEST_CASE("In a two-level all-gather each rank's rows cross to another host once") {
  const CollectiveCase test = gathering(Dtype::kF32, 1, {50'000});
  uint64_t rows = 0;  // of all ranks, in bytes
  for (int rank = 0; rank < 6; ++rank) {
    const Team team = team_on({3, 3}, rank);
    rows += exchange_input(test, team, rank, 0).bytes.size();
  }
  HostsRig by_host({3, 3});
  CHECK(by_host.run(algorithm_named("hierarchical_allgather"), test) == "");
  CHECK(by_host.sent_across() == rows + 6 * sizeof(int64_t));
}

TEST_CASE("A rank that wants nothing of an all-gather still carries it for its host") {
  const Hosts hosts{2, 3};
  MemoryHub hub;
  LaneRanks::Options options = on_hosts(hosts);
  options.channels = [&](int rank, const Abort& abort) { return hub.channel_set(rank, abort); };
  options.wake_channels = [&] { hub.wake_all(); };
  LaneRanks lanes(5, options);
  const CollectiveCase test = gathering(Dtype::kF64, 1, {9000, 2});
  const Algorithm& algorithm = algorithm_named("hierarchical_allgather");
  CHECK(lanes.first_failure([&](int rank, Mesh& mesh) -> Status {
    const Team team = team_on(hosts, rank);
    const CaseTensors tensors(test, team);
    Nowhere nowhere;
    Call call = tensors.call(algorithm.plan(shape_on(hosts, test)), 0);
    if (rank == 0 || rank == 3) call.arrivals = &nowhere;
    RUEDA_RETURN_IF_ERROR(algorithm.run(call, mesh, Deadline::never()));
    return call.arrivals == &nowhere ? Status() : tensors.check();
  }) == "");
}

TEST_CASE("A two-level algorithm whose peer dies ends with the reason, whatever it waits for") {
  HostsRig rig({2, 2});
  LaneRanks::Options options = on_hosts({2, 2});
  MemoryHub hub;
  options.channels = [&](int rank, const Abort& abort) { return hub.channel_set(rank, abort); };
  options.wake_channels = [&] { hub.wake_all(); };
  LaneRanks lanes(4, options);
  const bool gathers = GENERATE(false, true);
  const CollectiveCase test =
      gathers ? gathering(Dtype::kF32, 1, {1 << 18}) : reduction(Dtype::kF32, ReduceOp::kSum, {1 << 20});
  const Algorithm& algorithm = algorithm_named(gathers ? "hierarchical_allgather" : "hierarchical");
  const auto results = lanes.run([&](int rank, Mesh& mesh) -> Status {
    if (rank == 3) return Status(Code::kPeerLost, "rank 3 was killed", 3);
    uint64_t stamp = 0;
    return run_case(algorithm, test, team_on({2, 2}, rank), mesh, stamp);
  });
  for (const Status& result : results) CHECK(result.sentence() == "rank 3 was killed");
}

TEST_CASE("Two-level algorithms run over TCP, where both kinds of wait have to wake each other") {
  const Hosts hosts{2, 2};
  TcpRanks tcp(4);
  LaneRanks::Options options = on_hosts(hosts);
  options.channels = [&](int rank, const Abort& abort) { return tcp.transport(rank).channel_set(0, abort); };
  options.wake_channels = [&] {
    for (int rank = 0; rank < 4; ++rank) tcp.transport(rank).wake_all();
  };
  LaneRanks lanes(4, options);
  CHECK(lanes.first_failure([&](int rank, Mesh& mesh) -> Status {
    const Team team = team_on(hosts, rank);
    uint64_t stamp = 0;
    for (int64_t round = 0; round < 20; ++round) {
      for (const char* name : kTwoLevel) {
        CollectiveCase test = reduction(Dtype::kBf16, ReduceOp::kSum, {round * 7919, 3, scaled_down(round * 40'000)});
        RUEDA_RETURN_IF_ERROR(run_case(algorithm_named(name), test, team, mesh, stamp, 65536));
      }
      const CollectiveCase gather = gathering(Dtype::kF32, 1, {round * 1009, 3, scaled_down(round * 9'000)});
      RUEDA_RETURN_IF_ERROR(run_case(algorithm_named("hierarchical_allgather"), gather, team, mesh, stamp, 65536));
    }
    return {};
  }) == "");
}

TEST_CASE("From 64 KiB on, batches of several ranks on several hosts go by host, unless forbidden or forced") {
  Settings settings;
  const auto algorithm_for = [&](const CollectiveCase& test, const Hosts& hosts) {
    BatchShape shape = shape_on(hosts, test);
    shape.deterministic = settings.deterministic;
    const auto choice = select_algorithm(algorithms(), settings, shape);
    return choice.ok() ? std::string(algorithms()[choice.value().algorithm].name) : choice.status().sentence();
  };
  const CollectiveCase large = reduction(Dtype::kF32, ReduceOp::kSum, {1 << 16});
  const CollectiveCase small = reduction(Dtype::kF32, ReduceOp::kSum, {16});
  CollectiveCase half = large;
  half.codec = CodecId::kFp16;
  CHECK(algorithm_for(large, {2, 2}) == "hierarchical");
  CHECK(algorithm_for(half, {2, 2}) == "hierarchical_narrow");
  CHECK(algorithm_for(large, {1, 1}) == "direct");
  CHECK(algorithm_for(small, {2, 2}) == "doubling");
  settings.hierarchical_allreduce = Choice::kForce;
  CHECK(algorithm_for(small, {2, 2}) == "hierarchical");
  settings.hierarchical_allreduce = Choice::kForbid;
  CHECK(algorithm_for(large, {2, 2}) == "direct");
  settings.allreduce_algorithm = "hierarchical";
  CHECK_THAT(algorithm_for(large, {2, 2}), Catch::Contains("RUEDA_HIERARCHICAL_ALLREDUCE=0"));
  settings = Settings();
  settings.deterministic = true;
  CHECK(algorithm_for(half, {2, 2}) == "hierarchical");
  CHECK(algorithm_for(large, {17, 2}) == "direct");
}

TEST_CASE("All-gathers go by host wherever one has several ranks, unless forbidden") {
  Settings settings;
  const auto algorithm_for = [&](const Hosts& hosts) {
    const BatchShape shape = shape_on(hosts, gathering(Dtype::kF32, 1, {1}));
    const auto choice = select_algorithm(algorithms(), settings, shape);
    return choice.ok() ? std::string(algorithms()[choice.value().algorithm].name) : choice.status().sentence();
  };
  CHECK(algorithm_for({2, 2}) == "hierarchical_allgather");
  CHECK(algorithm_for({1, 3}) == "hierarchical_allgather");
  CHECK(algorithm_for({1, 1}) == "direct_allgather");
  settings.hierarchical_allgather = Choice::kForbid;
  CHECK(algorithm_for({2, 2}) == "direct_allgather");
}
