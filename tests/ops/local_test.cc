// A set of one rank: which reductions read and write memory, and which leave every bit as it is.
#include "ops/cpu/local.h"

#include <bit>
#include <catch2/catch.hpp>
#include <vector>

#include "tests/ops/table_rig.h"
#include "tests/support/collective_case.h"

using namespace rueda::core;

namespace {

/// A signalling NaN of negative sign with a payload: no arithmetic gives these bits.
constexpr uint32_t kOddNan = 0xffa12345U;
constexpr uint32_t kOneNan = 0x7fc00000U;

/// An odd NaN, 3 and -0.
std::vector<uint32_t> odd_numbers() { return {kOddNan, std::bit_cast<uint32_t>(3.0F), 0x80000000U}; }

void reduce_alone(const Call& call) {
  TableRig rig(1);
  CHECK(rig.lanes().first_failure([&](int, Mesh& mesh) { return local_allreduce(call, mesh, Deadline::never()); }) ==
        "");
}

/// Returns what becomes of the odd numbers on one rank; `change` edits the call, which is a sum.
template <typename Change>
std::vector<uint32_t> reduced(bool in_place, Change change) {
  std::vector<uint32_t> in = odd_numbers();
  std::vector<uint32_t> out(in.size(), 0);
  auto* const input = reinterpret_cast<std::byte*>(in.data());
  const Slice slice{input, in_place ? input : reinterpret_cast<std::byte*>(out.data()), 3};
  const Team team = team_of(1, 0);
  Call call;
  call.team = &team;
  call.slices = {&slice, 1};
  call.count = slice.count;
  change(call);
  reduce_alone(call);
  return in_place ? in : out;
}

}  // namespace

TEST_CASE("A plain reduction of one rank gives each number with its own bits") {
  for (const bool in_place : {true, false}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kProduct}) {
      CHECK(reduced(in_place, [&](Call& call) { call.op = op; }) == odd_numbers());
    }
  }
}

TEST_CASE("A scale, a divisor or a codec changes the numbers of one rank as it does among many") {
  for (const bool in_place : {true, false}) {
    CHECK(reduced(in_place, [](Call& call) { call.prescale = 2; })[1] == std::bit_cast<uint32_t>(6.0F));
    CHECK(reduced(in_place, [](Call& call) { call.postscale = 0.5; })[1] == std::bit_cast<uint32_t>(1.5F));
    CHECK(reduced(in_place, [](Call& call) { call.codec = CodecId::kFp16; })[0] == kOneNan);
    const auto average_of_three = [](Call& call) {
      call.op = ReduceOp::kAverage;
      call.divisor = 3;
    };
    CHECK(reduced(in_place, average_of_three)[1] == std::bit_cast<uint32_t>(1.0F));
  }
}

TEST_CASE("Bools of one rank become 0 and 1") {
  std::byte bools[] = {std::byte{0}, std::byte{2}, std::byte{1}};
  const Slice slice{bools, bools, 3};
  const Team team = team_of(1, 0);
  Call call;
  call.team = &team;
  call.dtype = Dtype::kBool;
  call.slices = {&slice, 1};
  call.count = 3;
  reduce_alone(call);
  CHECK(bools[0] == std::byte{0});
  CHECK(bools[1] == std::byte{1});
  CHECK(bools[2] == std::byte{1});
}
