// The parts of rueda-perf that judge results and times.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <complex>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>

#include "benchmarks/rueda_perf/algorithms_run.h"
#include "benchmarks/rueda_perf/buffers.h"
#include "benchmarks/rueda_perf/meeting.h"
#include "benchmarks/rueda_perf/pattern.h"
#include "benchmarks/rueda_perf/resnet50.h"
#include "benchmarks/rueda_perf/timing.h"

using namespace rueda::perf;
using rueda::core::Dtype;
using rueda::core::ReduceOp;

namespace {

constexpr size_t kCount = 2500;  // beyond two periods

std::vector<float> filled(ReduceOp op, int rank, int ranks, size_t index) {
  std::vector<float> tensor(kCount);
  Pattern(Dtype::kF32, op, rank, ranks).fill(std::as_writable_bytes(std::span(tensor)), index);
  return tensor;
}

float reduced(ReduceOp op, float left, float right) {
  if (op == ReduceOp::kMin) return std::min(left, right);
  if (op == ReduceOp::kMax) return std::max(left, right);
  return op == ReduceOp::kProduct ? left * right : left + right;
}

std::vector<float> reduced_over(ReduceOp op, int ranks, size_t index) {
  std::vector<float> result = filled(op, 0, ranks, index);
  for (int rank = 1; rank < ranks; ++rank) {
    const std::vector<float> next = filled(op, rank, ranks, index);
    for (size_t i = 0; i < kCount; ++i) result[i] = reduced(op, result[i], next[i]);
  }
  if (op == ReduceOp::kAverage) {
    for (float& value : result) value /= static_cast<float>(ranks);
  }
  return result;
}

}  // namespace

TEST_CASE("a pattern holds for the reduction of all ranks' inputs, and for nothing else") {
  for (const ReduceOp op : {ReduceOp::kAverage, ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
    for (const int ranks : {1, 2, 3, 8}) {
      INFO(rueda::core::name_of(op) << " of " << ranks << " ranks");
      const Pattern pattern(Dtype::kF32, op, ranks - 1, ranks);
      std::vector<float> result = reduced_over(op, ranks, 5);
      const auto bytes = std::as_bytes(std::span(result));
      CHECK(pattern.holds(bytes, 5));
      CHECK_FALSE(pattern.holds(bytes, 6));  // another tensor's
      result[1700] += 1;
      CHECK_FALSE(pattern.holds(bytes, 5));
    }
  }
}

TEST_CASE("patterns of complex numbers and of bits hold for the reduction of all ranks' inputs") {
  std::vector<std::complex<double>> numbers(kCount);
  std::vector<uint16_t> bits(kCount);
  for (int rank = 0; rank < 3; ++rank) {
    std::vector<std::complex<double>> some(kCount);
    Pattern(Dtype::kC128, ReduceOp::kSum, rank, 3).fill(std::as_writable_bytes(std::span(some)), 1);
    std::vector<uint16_t> other(kCount);
    Pattern(Dtype::kU16, ReduceOp::kBxor, rank, 3).fill(std::as_writable_bytes(std::span(other)), 1);
    for (size_t i = 0; i < kCount; ++i) {
      numbers[i] += some[i];
      bits[i] = static_cast<uint16_t>(bits[i] ^ other[i]);
    }
  }
  CHECK(Pattern(Dtype::kC128, ReduceOp::kSum, 2, 3).holds(std::as_bytes(std::span(numbers)), 1));
  CHECK(Pattern(Dtype::kU16, ReduceOp::kBxor, 2, 3).holds(std::as_bytes(std::span(bits)), 1));
  numbers[2000] += std::complex<double>(0, 1);
  bits[2000] ^= 1;
  CHECK_FALSE(Pattern(Dtype::kC128, ReduceOp::kSum, 2, 3).holds(std::as_bytes(std::span(numbers)), 1));
  CHECK_FALSE(Pattern(Dtype::kU16, ReduceOp::kBxor, 2, 3).holds(std::as_bytes(std::span(bits)), 1));
}

TEST_CASE("a pattern does not hold for an input that nobody reduced") {
  const std::vector<float> own = filled(ReduceOp::kSum, 0, 2, 0);
  CHECK_FALSE(Pattern(Dtype::kF32, ReduceOp::kSum, 0, 2).holds(std::as_bytes(std::span(own)), 0));
}

TEST_CASE("after a broadcast everyone holds what the root had") {
  std::vector<uint16_t> root(kCount), other(kCount);
  Pattern::of_broadcast(Dtype::kBf16, 1, 1).fill(std::as_writable_bytes(std::span(root)), 0);
  const Pattern elsewhere = Pattern::of_broadcast(Dtype::kBf16, 2, 1);
  elsewhere.fill(std::as_writable_bytes(std::span(other)), 0);
  CHECK(elsewhere.holds(std::as_bytes(std::span(root)), 0));
  CHECK_FALSE(elsewhere.holds(std::as_bytes(std::span(other)), 0));
}

TEST_CASE("the algorithm of a run is the one that moved most of its bytes, or ran most of its batches") {
  const AlgorithmsRun before = {{1, {"one", 10, 1000}}, {2, {"two", 5, 50}}};
  CHECK(busiest_algorithm(before, before) == "none");
  CHECK(busiest_algorithm(before, {{1, {"one", 11, 1100}}, {2, {"two", 50, 149}}}) == "one");
  CHECK(busiest_algorithm(before, {{1, {"one", 11, 1000}}, {2, {"two", 7, 50}}, {3, {"barrier", 1, 0}}}) == "two");
  CHECK(busiest_algorithm({}, {{3, {"barrier", 1, 0}}}) == "barrier");
}

TEST_CASE("quantiles are those of the nearest rank") {
  std::vector<double> times(200);
  std::iota(times.rbegin(), times.rend(), 1.0);
  const Quantiles found = quantiles(times);
  CHECK(found.p50 == 100);
  CHECK(found.p99 == 198);
  CHECK(found.max == 200);
  std::vector<double> one = {7};
  CHECK(quantiles(one).p99 == 7);
}

TEST_CASE("an entry has at least five steps and at most a million") {
  CHECK(steps_within(0.5, 1e7) == 5);
  CHECK(steps_within(0.5, 1000) == 500);
  CHECK(steps_within(0.5, 1) == 500000);
  CHECK(steps_within(0.5, 0) == 1000000);
}

TEST_CASE("ResNet-50 has 161 gradients of 25,557,032 elements in all") {
  const std::vector<size_t> counts = resnet50_parameter_counts();
  CHECK(counts.size() == 161);
  CHECK(std::accumulate(counts.begin(), counts.end(), size_t{0}) == 25557032);
  CHECK(counts.front() == 64 * 3 * 7 * 7);
  CHECK(counts.back() == 1000);
}

TEST_CASE("cold buffers rotate beyond four times the last-level cache, hot ones stay") {
  for (const size_t bytes : {size_t{4}, size_t{4096}, size_t{1} << 20, size_t{1} << 28}) {
    const Rotation cold = rotation_of(bytes, Buffers::kCold);
    CHECK(cold.bytes() > 4 * last_level_cache_bytes());
    CHECK(cold.stride >= bytes);
    CHECK(cold.turns >= 2);
    CHECK(cold.offset(0) != cold.offset(1));
    CHECK(cold.offset(cold.turns) == 0);
    CHECK(rotation_of(bytes, Buffers::kHot).offset(3) == 0);

    const Rotation of_eight = rotation_of(bytes, Buffers::kCold, 8);
    CHECK(8 * of_eight.bytes() > 4 * last_level_cache_bytes());
    CHECK(of_eight.turns >= 2);
    CHECK((of_eight.turns == 2 || of_eight.turns < cold.turns / 7));
  }
}

TEST_CASE("all ranks share the last-level cache, or each is taken to have its own") {
  CHECK(ranks_of_cache(1) == 1);
  const size_t sharers = ranks_of_cache(8);
  CHECK((sharers == 8 || sharers == 1));
}

TEST_CASE("two sides measure how far apart they are, again and again") {
  const auto page = std::make_unique<MeetingPage>();
  std::array<RoundTrips, 2> found[2];
  const auto side = [&](int number) {
    Meeting meeting(*page, number);
    for (RoundTrips& trips : found[number]) {
      trips.line_ns = meeting.line_ns();
      trips.futex_us = meeting.futex_us();
    }
  };
  std::thread other(side, 1);
  side(0);
  other.join();
  // 0 says "not measured", which a machine too busy to run both at once may end in; nothing is negative.
  for (const RoundTrips& trips : found[0]) {
    CHECK(trips.line_ns >= 0);
    CHECK(trips.futex_us >= 0);
  }
}
