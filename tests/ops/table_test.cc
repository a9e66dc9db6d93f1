#include <catch2/catch.hpp>
#include <initializer_list>

#include "ops/chunks.h"
#include "runtime/base/reduction.h"
#include "tests/ops/table_rig.h"
#include "tests/support/collective_case.h"

using namespace rueda::core;

namespace {

using Buffers = CollectiveCase::Buffers;

/// Runs the cases one after the other on the same lanes: what one leaves behind, the next one meets.
struct Cases {
  const Algorithm* algorithm = nullptr;
  std::vector<CollectiveCase> tests;
  std::vector<uint32_t> chunk_bytes = {0};
  int group = 1 << 30;

  Status run_on(int rank, Mesh& mesh, uint64_t first_stamp) const {
    const Team team = team_of(mesh.size(), rank, group);
    uint64_t stamp = first_stamp;
    for (const CollectiveCase& test : tests) {
      if (!may_serve(*algorithm, test.shape(team.size()))) continue;
      for (const uint32_t bytes : chunk_bytes)
        RUEDA_RETURN_IF_ERROR(run_case(*algorithm, test, team, mesh, stamp, bytes));
    }
    return {};
  }
};

/// Every algorithm of a kind in turn on the same lanes.
void check_algorithms(int size, OpKind kind, Cases cases) {
  TableRig rig(size);
  uint64_t stamp = 0;
  cases.tests = thinned(cases.tests, static_cast<size_t>(size));
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.kind != kind) continue;
    cases.algorithm = &algorithm;
    INFO("algorithm " << algorithm.name << " at np " << size);
    CHECK(rig.lanes().first_failure([&](int rank, Mesh& mesh) { return cases.run_on(rank, mesh, stamp); }) == "");
    stamp += uint64_t{1} << 50;
  }
}

std::vector<int64_t> edge_counts(int size) { return {0, 1, size - 1, size, size + 1, 1000}; }

CollectiveCase dealt(CollectiveCase test, int64_t row) {
  test.kind = OpKind::kReducescatter;
  test.row = row;
  return test;
}

}  // namespace

TEST_CASE("Every all-reduce algorithm gives the formula's result for every type and operator") {
  for (const int size : {1, 2, 3, 4, 7, 8}) {
    Cases cases;
    for (const Dtype dtype : kAllDtypes) {
      for (const ReduceOp op : kAllOps) {
        if (!why_undefined(op, dtype).empty()) continue;
        for (const int64_t count : edge_counts(size)) cases.tests.push_back(reduction(dtype, op, {count}));
      }
    }
    check_algorithms(size, OpKind::kAllreduce, cases);
  }
}

TEST_CASE("Every all-reduce algorithm is right at one chunk, one element less and one more") {
  for (const int size : {1, 2, 3, 4, 7, 8}) {
    Cases cases;
    cases.chunk_bytes = {4096};
    for (const Dtype dtype : kAllDtypes) {
      const auto chunk = static_cast<int64_t>(4096 / size_of(dtype));
      for (const ReduceOp op : kAllOps) {
        if (!why_undefined(op, dtype).empty()) continue;
        for (const int64_t count : {chunk - 1, chunk, chunk + 1}) cases.tests.push_back(reduction(dtype, op, {count}));
      }
    }
    for (const Dtype dtype : {Dtype::kU8, Dtype::kBf16, Dtype::kF32, Dtype::kI64}) {
      const auto chunk = static_cast<int64_t>(4096 / size_of(dtype));
      cases.tests.push_back(reduction(dtype, ReduceOp::kSum, {11 * chunk + 3}));
    }
    check_algorithms(size, OpKind::kAllreduce, cases);
  }
}

TEST_CASE("Every all-reduce algorithm is right at the chunk it plans, one element less and one more") {
  for (const int size : {2, 4, 7}) {
    Cases cases;
    const auto chunk = static_cast<int64_t>(SegmentLayout{}.slot_bytes / size_of(Dtype::kF32));
    for (const int64_t count : {chunk - 1, chunk, chunk + 1, (kThorough ? 9 : 2) * chunk + 5}) {
      cases.tests.push_back(reduction(Dtype::kF32, ReduceOp::kSum, {count}));
    }
    check_algorithms(size, OpKind::kAllreduce, cases);
  }
}

TEST_CASE(
    "Every all-reduce algorithm takes batches of many tensors, empty ones among them, in place and out of place") {
  for (const int size : {1, 2, 3, 4}) {
    Cases cases;
    cases.chunk_bytes = {0, 4096, 65536};
    std::vector<int64_t> counts;
    for (int64_t i = 0; i < scaled_down(200); ++i) counts.push_back(i % 7 == 3 ? 0 : (i * i * 37) % 900);
    for (const std::vector<int64_t>& batch : {counts, std::vector<int64_t>{0, 0, 0}, {70001, 0, 1, 13}}) {
      for (const Buffers buffers : {Buffers::kInPlace, Buffers::kOutOfPlace}) {
        CollectiveCase test = reduction(Dtype::kF32, ReduceOp::kAverage, batch);
        test.buffers = buffers;
        cases.tests.push_back(test);
        test.dtype = Dtype::kI8;
        cases.tests.push_back(test);
      }
    }
    check_algorithms(size, OpKind::kAllreduce, cases);
  }
}

TEST_CASE("Every all-reduce algorithm applies codecs and scales") {
  for (const int size : {1, 2, 3, 8}) {
    Cases cases;
    cases.chunk_bytes = {0, 8192};
    for (const CodecId codec : {CodecId::kNone, CodecId::kFp16, CodecId::kBf16}) {
      for (const Dtype dtype : {Dtype::kF32, Dtype::kF64, Dtype::kF16, Dtype::kI32, Dtype::kBool, Dtype::kC64}) {
        CollectiveCase test = reduction(dtype, ReduceOp::kSum, {3, 5000, 77, scaled_down(20000)});
        test.codec = codec;
        test.buffers = Buffers::kOutOfPlace;
        cases.tests.push_back(test);
        test.prescale = 0.5;
        test.postscale = 4.0;
        cases.tests.push_back(test);
        test.counts = {9};
        cases.tests.push_back(test);
      }
    }
    check_algorithms(size, OpKind::kAllreduce, cases);
  }
}

TEST_CASE("Every all-reduce algorithm serves 16 and 33 ranks in groups of 16") {
  for (const int size : {16, 33}) {
    Cases cases;
    cases.group = 16;
    for (const int64_t count : {int64_t{1}, int64_t{33}, int64_t{5000}, scaled_down(150000)}) {
      cases.tests.push_back(reduction(Dtype::kF32, ReduceOp::kAverage, {count}));
      cases.tests.push_back(reduction(Dtype::kBf16, ReduceOp::kMax, {count, 7}));
    }
    check_algorithms(size, OpKind::kAllreduce, cases);
  }
}

TEST_CASE(
    "Every reduce-scatter algorithm gives each rank its rows of the formula's result for every type and operator") {
  for (const int size : {1, 2, 3, 4, 7, 8}) {
    Cases cases;
    for (const Dtype dtype : kAllDtypes) {
      for (const ReduceOp op : kAllOps) {
        if (!why_undefined(op, dtype).empty()) continue;
        for (const int64_t count : edge_counts(size)) {
          cases.tests.push_back(dealt(reduction(dtype, op, {count}), 1));
          cases.tests.push_back(dealt(reduction(dtype, op, {5 * count, 10}), 5));
        }
      }
    }
    check_algorithms(size, OpKind::kReducescatter, cases);
  }
}

TEST_CASE(
    "Every reduce-scatter algorithm cuts chunks, applies codecs and scales, and works in place and out of place") {
  for (const int size : {1, 2, 3, 8, 33}) {
    Cases cases;
    cases.chunk_bytes = {0, 16384};
    cases.group = 16;
    const int64_t long_count = scaled_down(size > 8 ? 5'000 : 100'000);
    for (const CodecId codec : {CodecId::kNone, CodecId::kBf16}) {
      for (const Dtype dtype : {Dtype::kF32, Dtype::kF64, Dtype::kI16}) {
        for (const std::vector<int64_t>& counts : {std::vector<int64_t>{3, 0, 3000, 9}, {long_count * 3}}) {
          CollectiveCase test = dealt(reduction(dtype, ReduceOp::kSum, counts), 3);
          test.codec = codec;
          cases.tests.push_back(test);
          test.buffers = Buffers::kOutOfPlace;
          test.prescale = 0.5;
          test.postscale = 4.0;
          cases.tests.push_back(test);
        }
      }
    }
    check_algorithms(size, OpKind::kReducescatter, cases);
  }
}

TEST_CASE("Every reduce algorithm gives the root the formula's result, and the others nothing") {
  for (const int size : {1, 2, 3, 4, 7}) {
    Cases cases;
    cases.chunk_bytes = {0, 4096};
    for (int root = 0; root < size; ++root) {
      for (const Dtype dtype : {Dtype::kI8, Dtype::kBf16, Dtype::kF32}) {
        for (const std::vector<int64_t>& counts : {std::vector<int64_t>{0}, {1}, {1000, 0, 3}, {scaled_down(90'000)}}) {
          CollectiveCase test = reduction(dtype, ReduceOp::kAverage, counts);
          test.kind = OpKind::kReduce;
          test.root = root;
          cases.tests.push_back(test);
          test.buffers = Buffers::kOutOfPlace;
          test.codec = CodecId::kFp16;
          cases.tests.push_back(test);
        }
      }
    }
    check_algorithms(size, OpKind::kReduce, cases);
  }
}

TEST_CASE("Every broadcast algorithm hands the root's bits to all, from every root") {
  for (const int size : {1, 2, 3, 4, 7, 8, 33}) {
    Cases cases;
    cases.chunk_bytes = {0, 4096};
    for (int root = 0; root<size; root += size> 8 ? 16 : 1) {
      for (const Dtype dtype : {Dtype::kBool, Dtype::kBf16, Dtype::kF64, Dtype::kC128, Dtype::kOpaque}) {
        if (size > 8 && dtype != Dtype::kBf16) continue;
        CollectiveCase test;
        test.kind = OpKind::kBroadcast;
        test.dtype = dtype;
        test.root = root;
        test.codec = CodecId::kFp16;
        for (const std::vector<int64_t>& counts : {std::vector<int64_t>{0}, {1}, {1000}, {4096, 0, 3, 9001}}) {
          test.counts = counts;
          test.buffers = counts.size() > 1 ? Buffers::kOutOfPlace : Buffers::kInPlace;
          cases.tests.push_back(test);
        }
      }
    }
    check_algorithms(size, OpKind::kBroadcast, cases);
  }
}

TEST_CASE("Every algorithm that exchanges rows puts them in the order of ranks, however many each rank has") {
  for (const OpKind kind : {OpKind::kAllgather, OpKind::kAlltoall, OpKind::kGather, OpKind::kScatter}) {
    for (const int size : {1, 2, 3, 4, 7, 33}) {
      Cases cases;
      cases.chunk_bytes = {0, 64, 4096};
      if (!kThorough && size > 8) cases.chunk_bytes = {1024};
      for (const int64_t row : {1, 3}) {
        CollectiveCase test;
        test.kind = kind;
        test.root = size / 2;
        test.row = row;
        for (const Dtype dtype : {Dtype::kU8, Dtype::kF32, Dtype::kI64}) {
          test.dtype = dtype;
          const int64_t many = size > 8 ? 301 : scaled_down(3001);
          for (const std::vector<int64_t>& counts : {std::vector<int64_t>{0}, {1}, {100, 0, 7}, {many}}) {
            test.counts = counts;
            cases.tests.push_back(test);
          }
        }
      }
      check_algorithms(size, kind, cases);
    }
  }
}

TEST_CASE("Rows lie in the order of ranks where a team has another") {
  const std::vector<int> hosts_first = {0, 2, 1, 3};
  for (const Algorithm& algorithm : algorithms()) {
    if (!exchanges(algorithm.kind) && algorithm.kind != OpKind::kReducescatter) continue;
    CollectiveCase test;
    test.kind = algorithm.kind;
    test.counts = {50, 9};
    test.root = 1;
    TableRig rig(4);
    INFO(name_of(algorithm.kind) << " algorithm " << algorithm.name);
    if (!may_serve(algorithm, test.shape(4))) continue;
    CHECK(rig.lanes().first_failure([&](int rank, Mesh& mesh) {
      uint64_t stamp = 0;
      return run_case(algorithm, test, team_of(hosts_first, rank), mesh, stamp);
    }) == "");
  }
}

TEST_CASE("A long exchange reuses its slots many times") {
  for (const OpKind kind : {OpKind::kAllgather, OpKind::kAlltoall, OpKind::kGather, OpKind::kScatter}) {
    Cases cases;
    if (!kThorough) cases.chunk_bytes = {16384};
    CollectiveCase test;
    test.kind = kind;
    test.dtype = Dtype::kF64;
    test.counts = {scaled_down(700'000), 5};
    cases.tests = {test, test};
    check_algorithms(3, kind, cases);
  }
}

TEST_CASE("Every send algorithm hands the root's bits to the other rank") {
  Cases cases;
  cases.chunk_bytes = {0, 4096};
  for (const int root : {0, 1}) {
    for (const std::vector<int64_t>& counts : {std::vector<int64_t>{0}, {1}, {4096, 0, 3, scaled_down(90'001)}}) {
      CollectiveCase test;
      test.kind = OpKind::kSend;
      test.dtype = Dtype::kBf16;
      test.root = root;
      test.counts = counts;
      cases.tests.push_back(test);
    }
  }
  check_algorithms(2, OpKind::kSend, cases);
}

TEST_CASE("No rank leaves a barrier before all have come") {
  for (const int size : {1, 2, 3, 4, 7, 8, 33}) {
    TableRig rig(size);
    uint64_t first = 0;
    for (const Algorithm& algorithm : algorithms()) {
      if (algorithm.kind != OpKind::kBarrier) continue;
      CollectiveCase test;
      test.kind = OpKind::kBarrier;
      test.counts = {};
      if (!may_serve(algorithm, test.shape(size))) continue;
      std::atomic<int> came{0};
      const auto body = [&](int rank, Mesh& mesh) -> Status {
        const Team team = team_of(size, rank);
        uint64_t stamp = first;
        for (int round = 1; round <= 50; ++round) {
          came.fetch_add(1);
          RUEDA_RETURN_IF_ERROR(run_case(algorithm, test, team, mesh, stamp));
          if (came.load() < round * size) return Status(Code::kSystem, "rank " + std::to_string(rank) + " left early");
        }
        return {};
      };
      INFO("algorithm " << algorithm.name << " at np " << size);
      CHECK(rig.lanes().first_failure(body) == "");
      first += 1000;
    }
  }
}
