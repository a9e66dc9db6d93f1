#include <catch2/catch.hpp>

#include "ops/kernels/reduce.h"
#include "ops/owner_parts.h"
#include "ops/packing.h"
#include "ops/variants.h"
#include "tests/ops/table_rig.h"
#include "tests/support/collective_case.h"

using namespace rueda::core;

namespace {

using Bytes = std::vector<std::byte>;

struct Bracket {
  int size;
  int group;
};

/// How values travel. Kernels round those that are not scaled on their way in.
struct Way {
  CodecId codec;
  double prescale;
};

constexpr Way kWays[] = {
    {CodecId::kNone, 1.0 / 3.0}, {CodecId::kFp16, 1.0 / 3.0}, {CodecId::kFp16, 1.0}, {CodecId::kBf16, 1.0}};

CollectiveCase rounding(Dtype dtype, const Way& way, std::vector<int64_t> counts) {
  CollectiveCase test;
  test.dtype = dtype;
  test.codec = way.codec;
  test.op = ReduceOp::kAverage;
  test.prescale = way.prescale;
  test.postscale = 1.7;
  test.counts = std::move(counts);
  test.values = CollectiveCase::Values::kRounding;
  return test;
}

/// What every canonical algorithm must give: all inputs encoded, reduced by one kernel call in the team's bracket,
/// decoded.
Bytes reference(const CollectiveCase& test, const Bracket& bracket) {
  std::vector<Bytes> wire;
  std::vector<const std::byte*> inputs;
  for (int member = 0; member < bracket.size; ++member) {
    const Team team = team_of(bracket.size, member, bracket.group);
    const CaseTensors tensors(test, team);
    const Call call = tensors.call(AlgorithmChoice(), 0);
    const Packing packing(call);
    SliceCursor cursor = packing.cursor();
    wire.emplace_back(static_cast<size_t>(call.count) * packing.element_bytes());
    packing.pack(cursor, call.count, wire.back().data(), StoreHint::kPlain);
  }
  for (const Bytes& bytes : wire) inputs.push_back(bytes.data());
  const Team team = team_of(bracket.size, 0, bracket.group);
  const CaseTensors tensors(test, team);
  const Call call = tensors.call(AlgorithmChoice(), 0);
  const Packing packing(call);
  reduce(packing.task(), inputs, wire[0].data(), StoreHint::kPlain, nullptr, call.count);
  SliceCursor cursor = packing.cursor();
  packing.unpack(cursor, call.count, wire[0].data());
  return tensors.results();
}

/// Runs an algorithm and compares each rank's bits with the reference's.
std::string compare(LaneRanks& lanes, const Algorithm& algorithm, const CollectiveCase& test, const Bracket& bracket,
                    uint64_t stamp, const Bytes& expected, const AlgorithmChoice& choice) {
  return lanes.first_failure([&](int rank, Mesh& mesh) -> Status {
    const Team team = team_of(bracket.size, rank, bracket.group);
    const CaseTensors tensors(test, team, arena_for(algorithm, test, bracket.size, mesh));
    RUEDA_RETURN_IF_ERROR(algorithm.run(tensors.call(choice, stamp), mesh, Deadline::never()));
    if (tensors.results() == expected) return {};
    return Status(Code::kSystem,
                  std::string(algorithm.name) + ": rank " + std::to_string(rank) + " differs in " + test.text());
  });
}

}  // namespace

TEST_CASE("All canonical algorithms give all ranks the same bits, whoever owns a slice and wherever tensors end") {
  for (const Bracket bracket :
       {Bracket{1, 1}, Bracket{2, 2}, Bracket{4, 2}, Bracket{7, 3}, Bracket{16, 16}, Bracket{33, 16}}) {
    TableRig rig(bracket.size);
    uint64_t stamp = 0;
    for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBf16, Dtype::kF64, Dtype::kC64, Dtype::kC128}) {
      if (!kThorough && bracket.size > 8 && dtype != Dtype::kF16) continue;
      for (const Way& way : kWays) {
        for (const std::vector<int64_t>& counts : {std::vector<int64_t>{5}, {3, 9001, 0, 17, 1, scaled_down(20000)}}) {
          const CollectiveCase test = rounding(dtype, way, counts);
          const Bytes expected = reference(test, bracket);
          for (const Algorithm& algorithm : algorithms()) {
            if (!algorithm.canonical || !may_serve(algorithm, test.shape(bracket.size))) continue;
            CHECK(compare(rig.lanes(), algorithm, test, bracket, stamp, expected,
                          algorithm.plan(test.shape(bracket.size))) == "");
            stamp += 1000;
          }
        }
      }
    }
  }
}

TEST_CASE("All variants of a batch give all ranks the same bits") {
  for (const Bracket bracket : {Bracket{2, 2}, Bracket{4, 4}}) {
    TableRig rig(bracket.size);
    uint64_t stamp = 0;
    for (const Way& way : kWays) {
      for (const std::vector<int64_t>& counts : {std::vector<int64_t>{20'001}, {9'001, 0, 17, 1, 180'000}}) {
        const CollectiveCase test = rounding(Dtype::kF32, way, counts);
        const Bytes expected = reference(test, bracket);
        const BatchShape shape = test.shape(bracket.size);
        const std::vector<Variant> variants = variants_of(algorithms(), Settings(), shape);
        CHECK(variants.size() >= 4);
        for (const Variant& variant : variants) {
          const AlgorithmChoice choice = plan_variant(algorithms(), Settings(), shape, variant).value();
          CHECK(compare(rig.lanes(), algorithms()[variant.algorithm], test, bracket, stamp, expected, choice) == "");
          stamp += choice.stamps;
        }
      }
    }
  }
}

TEST_CASE("A reduce-scatter gives each rank the bits that an all-reduce would have put there") {
  for (const Bracket bracket : {Bracket{2, 2}, Bracket{4, 2}, Bracket{7, 3}}) {
    TableRig rig(bracket.size);
    uint64_t stamp = 0;
    for (const Way& way : kWays) {
      CollectiveCase test = rounding(Dtype::kF32, way, {20'001});
      const Bytes expected = reference(test, bracket);
      test.kind = OpKind::kReducescatter;
      for (const Algorithm& algorithm : algorithms()) {
        if (!may_serve(algorithm, test.shape(bracket.size))) continue;
        INFO(algorithm.name);
        CHECK(rig.lanes().first_failure([&](int rank, Mesh& mesh) -> Status {
          const Team team = team_of(bracket.size, rank, bracket.group);
          const CaseTensors tensors(test, team, arena_for(algorithm, test, bracket.size, mesh));
          RUEDA_RETURN_IF_ERROR(
              algorithm.run(tensors.call(algorithm.plan(test.shape(bracket.size)), stamp), mesh, Deadline::never()));
          const ElementRange own = rows_of(20'001, 1, bracket.size, rank);
          const Bytes part(expected.begin() + own.begin * 4, expected.begin() + own.end * 4);
          if (tensors.results() == part) return {};
          return Status(Code::kSystem, "rank " + std::to_string(rank) + " differs in " + test.text());
        }) == "");
        stamp += 1000;
      }
    }
  }
}

TEST_CASE("The bracket of the groups shows in the last bits of a sum") {
  CollectiveCase test = rounding(Dtype::kF32, kWays[0], {20000});
  CHECK(reference(test, {8, 8}) != reference(test, {8, 2}));
}

TEST_CASE("Algorithms that add in an order of their own still give all ranks the same bits") {
  for (const int size : {2, 3, 4, 7, 8}) {
    TableRig rig(size);
    uint64_t stamp = 0;
    for (const Algorithm& algorithm : algorithms()) {
      const CollectiveCase test = rounding(Dtype::kF32, kWays[0], {3, 9001, 0, 17});
      if (algorithm.canonical || !may_serve(algorithm, test.shape(size))) continue;
      std::vector<Bytes> results(static_cast<size_t>(size));
      CHECK(rig.lanes().first_failure([&](int rank, Mesh& mesh) -> Status {
        const Team team = team_of(size, rank);
        const CaseTensors tensors(test, team);
        RUEDA_RETURN_IF_ERROR(
            algorithm.run(tensors.call(algorithm.plan(test.shape(size)), stamp), mesh, Deadline::never()));
        results[static_cast<size_t>(rank)] = tensors.results();
        return {};
      }) == "");
      for (const Bytes& result : results) CHECK(result == results[0]);
      stamp += 1000;
    }
  }
}
