// Adaptive sums against the formula, computed plainly.
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/select.h"
#include "tests/ops/table_rig.h"
#include "tests/support/collective_case.h"

using namespace rueda::core;

namespace {

using Vector = std::vector<double>;

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Vector adasum(const Vector& a, const Vector& b) {
  const double both = dot(a, b);
  const double of_a = dot(a, a) > 0 ? 1 - both / (2 * dot(a, a)) : 1;
  const double of_b = dot(b, b) > 0 ? 1 - both / (2 * dot(b, b)) : 1;
  Vector sum(a.size());
  for (size_t i = 0; i < a.size(); ++i) sum[i] = of_a * a[i] + of_b * b[i];
  return sum;
}

/// Neighbours in pairs, then pairs of pairs; a vector without a neighbour goes up as it is.
Vector tree(std::vector<Vector> level) {
  while (level.size() > 1) {
    std::vector<Vector> next;
    for (size_t i = 0; i < level.size(); i += 2) {
      next.push_back(i + 1 < level.size() ? adasum(level[i], level[i + 1]) : level[i]);
    }
    level = std::move(next);
  }
  return level.front();
}

/// Element `i` of tensor `tensor` on `rank`: neither parallel nor orthogonal between ranks.
double element(int rank, size_t tensor, size_t i) {
  return std::sin(static_cast<double>(i) * (0.1 + 0.07 * rank) + static_cast<double>(tensor)) + 0.3;
}

Vector vector_of(int rank, size_t tensor, size_t count) {
  Vector values(count);
  for (size_t i = 0; i < count; ++i) values[i] = element(rank, tensor, i);
  return values;
}

template <typename T>
struct Tensors {
  std::vector<std::vector<T>> values;
  std::vector<Slice> slices;

  Tensors(int rank, const std::vector<size_t>& counts) {
    for (size_t t = 0; t < counts.size(); ++t) {
      const Vector exact = vector_of(rank, t, counts[t]);
      values.emplace_back(exact.begin(), exact.end());
    }
    for (auto& tensor : values) {
      auto* const bytes = reinterpret_cast<std::byte*>(tensor.data());
      slices.push_back({bytes, bytes, static_cast<int64_t>(tensor.size())});
    }
  }
};

BatchShape shape_of(Dtype dtype, size_t count, int ranks) {
  BatchShape shape;
  shape.dtype = dtype;
  shape.op = ReduceOp::kAdasum;
  shape.bytes = count * size_of(dtype);
  shape.ranks = ranks;
  return shape;
}

struct Batch {
  Dtype dtype;
  std::span<const Slice> tensors;
  uint64_t stamp;
  double postscale = 1.0;
};

Status run_batch(const Algorithm& algorithm, const Team& team, Mesh& mesh, const Batch& batch) {
  Call call;
  call.dtype = batch.dtype;
  call.op = ReduceOp::kAdasum;
  call.postscale = batch.postscale;
  call.slices = batch.tensors;
  for (const Slice& slice : batch.tensors) call.count += slice.count;
  call.choice = algorithm.plan(shape_of(batch.dtype, static_cast<size_t>(call.count), team.size()));
  call.stamp = batch.stamp;
  call.team = &team;
  return algorithm.run(call, mesh, Deadline::never());
}

template <typename T>
Status run_algorithm(const Algorithm& algorithm, const Team& team, Mesh& mesh, const std::vector<size_t>& counts,
                     uint64_t stamp) {
  constexpr Dtype kDtype = sizeof(T) == 4 ? Dtype::kF32 : Dtype::kF64;
  Tensors<T> tensors(team.ranks[static_cast<size_t>(team.index)], counts);
  RUEDA_RETURN_IF_ERROR(run_batch(algorithm, team, mesh, {kDtype, tensors.slices, stamp}));
  for (size_t t = 0; t < counts.size(); ++t) {
    std::vector<Vector> inputs;
    for (int rank = 0; rank < team.size(); ++rank) inputs.push_back(vector_of(rank, t, counts[t]));
    const Vector expected = tree(std::move(inputs));
    for (size_t i = 0; i < counts[t]; ++i) {
      const double got = static_cast<double>(tensors.values[t][i]);
      if (std::abs(got - expected[i]) <= 1e-5 * (1 + std::abs(expected[i]))) continue;
      return Status(Code::kSystem, std::string(algorithm.name) + ": rank " + std::to_string(team.index) + ", tensor " +
                                       std::to_string(t) + ", element " + std::to_string(i) + " is " +
                                       std::to_string(got) + ", not " + std::to_string(expected[i]));
    }
  }
  return {};
}

/// Not ok: a NaN in the result of `values` is not the positive quiet one, or there are not `nans` of them.
Status run_to_nan(const Algorithm& algorithm, const Team& team, Mesh& mesh, std::vector<float> values, int64_t nans,
                  double postscale, uint64_t stamp) {
  auto* const bytes = reinterpret_cast<std::byte*>(values.data());
  const Slice slice{bytes, bytes, static_cast<int64_t>(values.size())};
  RUEDA_RETURN_IF_ERROR(run_batch(algorithm, team, mesh, {Dtype::kF32, {&slice, 1}, stamp, postscale}));
  for (const float value : values) {
    if (!std::isnan(value)) continue;
    --nans;
    const auto bits = std::bit_cast<uint32_t>(value);
    if (bits != 0x7fc00000U)
      return {Code::kSystem, std::string(algorithm.name) + ": a NaN of bits " + std::to_string(bits)};
  }
  return nans == 0 ? Status() : Status(Code::kSystem, std::string(algorithm.name) + ": another number of NaNs");
}

}  // namespace

TEST_CASE("Every adasum algorithm gives the tree's sum of each tensor for any number of ranks") {
  const std::vector<std::vector<size_t>> batches = {
      {1}, {0}, {5, 0, 700, 3}, {static_cast<size_t>(scaled_down(100'000))}};
  for (const int size : {1, 2, 3, 4, 5, 7, 8}) {
    TableRig rig(size);
    uint64_t stamp = 0;
    for (const Algorithm& algorithm : algorithms()) {
      if (!may_serve(algorithm, shape_of(Dtype::kF32, 1, size))) continue;
      CHECK(algorithm.adasum);
      for (const std::vector<size_t>& counts : batches) {
        INFO(algorithm.name << " at np " << size);
        const auto body = [&](int rank, Mesh& mesh) -> Status {
          const Team team = team_of(size, rank);
          RUEDA_RETURN_IF_ERROR(run_algorithm<float>(algorithm, team, mesh, counts, stamp));
          return run_algorithm<double>(algorithm, team, mesh, counts, stamp + (uint64_t{1} << 40));
        };
        CHECK(rig.lanes().first_failure(body) == "");
        stamp += uint64_t{1} << 50;
      }
    }
  }
}

TEST_CASE("every NaN of an adaptive sum has the same bits, whatever made it") {
  const auto negative = std::bit_cast<float>(0xffc12345U);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kLarge = 3e38F;
  for (const int size : {1, 2, 3}) {
    TableRig rig(size);
    uint64_t stamp = 0;
    for (const Algorithm& algorithm : algorithms()) {
      if (!algorithm.adasum || algorithm.kind != OpKind::kAllreduce || !algorithm.fits(shape_of(Dtype::kF32, 3, size)))
        continue;
      INFO(algorithm.name << " at np " << size);
      const auto body = [&](int rank, Mesh& mesh) -> Status {
        const Team team = team_of(size, rank);
        const bool first = rank == 0;
        // One NaN makes the weights of its tensor NaN.
        const std::vector<float> given = {first ? negative : 1, 2, first ? 3 : -kInfinity};
        RUEDA_RETURN_IF_ERROR(run_to_nan(algorithm, team, mesh, given, size == 1 ? 1 : 3, 1.0, stamp));
        // Orthogonal, so that they are added: infinity and 0. A factor of 0 makes NaN and 0 of them.
        std::vector<float> added = {rank < 2 ? kLarge : 0, rank < 2 ? kLarge : 0};
        if (rank == 1) added[1] = -kLarge;
        if (size == 1) added[0] = kInfinity;
        const int64_t nans = size == 3 ? 2 : 1;  // the sum of an infinity and 0 is NaN as a whole
        return run_to_nan(algorithm, team, mesh, added, nans, 0.0, stamp + (uint64_t{1} << 40));
      };
      CHECK(rig.lanes().first_failure(body) == "");
      stamp += uint64_t{1} << 50;
    }
  }
}

TEST_CASE("Adasum has algorithms of its own, which nothing else uses") {
  int served = 0;
  for (const Algorithm& algorithm : algorithms()) {
    BatchShape shape = shape_of(Dtype::kF32, 100, 4);
    served += may_serve(algorithm, shape) ? 1 : 0;
    CHECK(may_serve(algorithm, shape) == (algorithm.adasum && algorithm.kind == OpKind::kAllreduce &&
                                          std::strcmp(algorithm.name, "local_adasum") != 0));
    shape.op = ReduceOp::kSum;
    if (algorithm.adasum) CHECK_FALSE(may_serve(algorithm, shape));
  }
  CHECK(served == 2);
}
