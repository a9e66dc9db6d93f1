// Adaptive sums against the formula, computed plainly.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

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

/// Neighbours in pairs, then pairs of pairs; who has no neighbour goes up as it is.
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

BatchShape shape_of(Dtype dtype, const std::vector<size_t>& counts, int ranks) {
  BatchShape shape;
  shape.dtype = dtype;
  shape.op = ReduceOp::kAdasum;
  for (const size_t count : counts) shape.bytes += count * size_of(dtype);
  shape.ranks = ranks;
  return shape;
}

template <typename T>
Status run_row(const Algorithm& row, const Team& team, Mesh& mesh, const std::vector<size_t>& counts, uint64_t stamp) {
  constexpr Dtype kDtype = sizeof(T) == 4 ? Dtype::kF32 : Dtype::kF64;
  Tensors<T> tensors(team.ranks[static_cast<size_t>(team.index)], counts);
  Call call;
  call.dtype = kDtype;
  call.op = ReduceOp::kAdasum;
  call.slices = tensors.slices;
  for (const Slice& slice : tensors.slices) call.count += slice.count;
  call.choice = row.plan(shape_of(kDtype, counts, team.size()));
  call.stamp = stamp;
  call.team = &team;
  RUEDA_RETURN_IF_ERROR(row.run(call, mesh, Deadline::never()));
  for (size_t t = 0; t < counts.size(); ++t) {
    std::vector<Vector> inputs;
    for (int rank = 0; rank < team.size(); ++rank) inputs.push_back(vector_of(rank, t, counts[t]));
    const Vector expected = tree(std::move(inputs));
    for (size_t i = 0; i < counts[t]; ++i) {
      const double got = static_cast<double>(tensors.values[t][i]);
      if (std::abs(got - expected[i]) <= 1e-5 * (1 + std::abs(expected[i]))) continue;
      return Status(Code::kSystem, std::string(row.name) + ": rank " + std::to_string(team.index) + ", tensor " +
                                       std::to_string(t) + ", element " + std::to_string(i) + " is " +
                                       std::to_string(got) + ", not " + std::to_string(expected[i]));
    }
  }
  return {};
}

}  // namespace

TEST_CASE("Every adasum row gives the tree's sum of each tensor for any number of ranks") {
  const std::vector<std::vector<size_t>> batches = {
      {1}, {0}, {5, 0, 700, 3}, {static_cast<size_t>(scaled_down(100'000))}};
  for (const int size : {1, 2, 3, 4, 5, 7, 8}) {
    TableRig rig(size);
    uint64_t stamp = 0;
    for (const Algorithm& row : algorithms()) {
      if (!may_serve(row, shape_of(Dtype::kF32, {1}, size))) continue;
      CHECK(row.adasum);
      for (const std::vector<size_t>& counts : batches) {
        INFO(row.name << " at np " << size);
        const auto body = [&](int rank, Mesh& mesh) -> Status {
          const Team team = team_of(size, rank);
          RUEDA_RETURN_IF_ERROR(run_row<float>(row, team, mesh, counts, stamp));
          return run_row<double>(row, team, mesh, counts, stamp + (uint64_t{1} << 40));
        };
        CHECK(rig.lanes().first_failure(body) == "");
        stamp += uint64_t{1} << 50;
      }
    }
  }
}

TEST_CASE("Adasum has rows of its own, which nothing else uses") {
  int served = 0;
  for (const Algorithm& row : algorithms()) {
    BatchShape shape = shape_of(Dtype::kF32, {100}, 4);
    served += may_serve(row, shape) ? 1 : 0;
    CHECK(may_serve(row, shape) ==
          (row.adasum && row.kind == OpKind::kAllreduce && std::strcmp(row.name, "local_adasum") != 0));
    shape.op = ReduceOp::kSum;
    if (row.adasum) CHECK_FALSE(may_serve(row, shape));
  }
  CHECK(served == 2);
}
