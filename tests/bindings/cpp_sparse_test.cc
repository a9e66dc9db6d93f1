// Sparse all-reduce: rows that some ranks have touched, as rows or as a table.
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "rueda.hpp"
#include "tests/bindings/cpp_ranks.h"

namespace rueda::test {
namespace {

constexpr int64_t kRows = 40;
constexpr int64_t kColumns = 3;

/// What `rank` touches in `step`: few rows of the table, or all of them, some twice.
SparseRows<float> touched(int rank, int step) {
  SparseRows<float> rows;
  const int64_t count = step % 4 >= 2 ? 2 * kRows : 5 - rank;
  for (int64_t i = 0; i < count; ++i) {
    rows.indices.push_back((i * 7 + rank * 3 + step) % kRows);
    for (int64_t column = 0; column < kColumns; ++column) {
      rows.values.push_back(static_cast<float>((i + column + rank + step) % 5 + 1));
    }
  }
  return rows;
}

/// The sum of what all ranks touch, by row.
std::map<int64_t, std::vector<float>> expected(int size, int step) {
  std::map<int64_t, std::vector<float>> table;
  for (int rank = 0; rank < size; ++rank) {
    const SparseRows<float> rows = touched(rank, step);
    for (size_t i = 0; i < rows.indices.size(); ++i) {
      std::vector<float>& row = table[rows.indices[i]];
      row.resize(kColumns);
      for (size_t column = 0; column < kColumns; ++column) row[column] += rows.values[i * kColumns + column];
    }
  }
  return table;
}

void expect_rows(const SparseRows<float>& got, const std::map<int64_t, std::vector<float>>& wanted,
                 const std::string& what) {
  expect(got.indices.size() == wanted.size(), what + ": " + std::to_string(got.indices.size()) + " rows");
  size_t i = 0;
  for (const auto& [index, row] : wanted) {
    expect(got.indices[i] == index, what + ": the order of rows");
    for (size_t column = 0; column < kColumns; ++column) {
      expect(got.values[i * kColumns + column] == row[column], what + ": row " + std::to_string(index));
    }
    ++i;
  }
}

}  // namespace

TEST_CASE("values of one index are added before anything moves") {
  const std::vector<int64_t> indices = {5, 1, 5, 0};
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8};
  const SparseRows<float> rows = coalesced<float>(indices, values, 2);
  CHECK(rows.indices == std::vector<int64_t>{0, 1, 5});
  CHECK(rows.values == std::vector<float>{7, 8, 3, 4, 6, 8});
}

TEST_CASE("a sparse all-reduce sums rows, as rows or as a table where that is fewer bytes") {
  for (const int size : {1, 2, 3}) {
    cpp_ranks(size, [size](Session& session) {
      SparseAllreduce<float> sum(session, kRows, kColumns, {.op = ReduceOp::kSum, .name = "embedding"});
      bool went_dense = false;
      for (int step = 0; step < 9; ++step) {
        went_dense = went_dense || sum.dense();
        const SparseRows<float> own = touched(session.rank(), step);
        expect_rows(sum.reduce(own.indices, own.values), expected(size, step), "step " + std::to_string(step));
      }
      expect(went_dense == (size > 1), "the ranks' rows were " + std::string(went_dense ? "" : "never ") + "a table");
    });
  }
}

TEST_CASE("a sparse average divides by the ranks, and no rows at all are fine") {
  cpp_ranks(2, [](Session& session) {
    SparseAllreduce<double> average(session, 10, 1);
    const std::vector<int64_t> indices = {session.rank(), 7};
    const std::vector<double> values = {4, 6};
    const SparseRows<double> rows = average.reduce(indices, values);
    expect(rows.indices == std::vector<int64_t>{0, 1, 7} && rows.values == std::vector<double>{2, 2, 6}, "the average");
    expect(average.reduce({}, {}).indices.empty(), "rows came from nowhere");
    expect(average.reduce(indices, values).indices.size() == 3, "the rows afterwards");
  });
}

TEST_CASE("a sparse all-reduce refuses rows outside its table") {
  cpp_ranks(1, [](Session& session) {
    SparseAllreduce<float> sum(session, 4, 2);
    const std::vector<int64_t> outside = {4};
    const std::vector<float> row = {1, 2};
    const auto refused = [](auto&& call) {
      try {
        call();
      } catch (const InvalidArgument&) {
        return true;
      }
      return false;
    };
    expect(refused([&] { sum.start(outside, row); }), "row 4 of 4 was taken");
    expect(refused([&] { sum.start({}, row); }), "values without an index were taken");
    expect(refused([&] { SparseAllreduce<float>(session, 4, 2, {.op = ReduceOp::kMax}); }), "a maximum was taken");
  });
}

TEST_CASE("a sparse average of whole numbers is exact where the sum is more than the type holds") {
  cpp_ranks(3, [](Session& session) {
    SparseAllreduce<int8_t> mean(session, 2, 2);
    const std::vector<int64_t> all = {0, 1};
    const std::vector<int8_t> values = {100, -100, 7, static_cast<int8_t>(-session.rank())};
    for (int step = 0; step < 2; ++step) {
      const SparseRows<int8_t> rows = mean.reduce(all, values);
      expect(rows.indices == all && rows.values == std::vector<int8_t>{100, -100, 7, -1}, "the averages");
    }
  });
}

}  // namespace rueda::test
