// All-gathers to which all ranks give as many rows, and say so.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/bindings/operations.h"

namespace rueda::test {
namespace {

rueda_op_options with_same_rows(const char* name) {
  rueda_op_options options = named(name);
  options.same_rows = 1;
  return options;
}

std::vector<int32_t> part_of(int rank, int64_t rows) {
  std::vector<int32_t> values;
  for (int64_t i = 0; i < rows; ++i) values.push_back(static_cast<int32_t>(rank * 100'000 + i));
  return values;
}

TEST_CASE("an all-gather of equal parts may gather into the memory around its input") {
  for (const int size : {1, 2, 3}) {
    run_ranks(size, [size](rueda_session* session, int rank) {
      const rueda_op_options options = with_same_rows("rows");
      for (const int64_t rows : {int64_t{0}, int64_t{1}, int64_t{33}, int64_t{50'000}}) {
        std::vector<int32_t> expected;
        for (int each = 0; each < size; ++each) {
          const std::vector<int32_t> part = part_of(each, rows);
          expected.insert(expected.end(), part.begin(), part.end());
        }
        std::vector<int32_t> whole(expected.size() + 1, -1);  // an address, also for no rows
        expected.push_back(-1);
        const std::vector<int32_t> own = part_of(rank, rows);
        std::copy(own.begin(), own.end(), whole.begin() + rank * rows);
        const CTensor in(whole.data() + rank * rows, RUEDA_I32, {rows});
        const CTensor out(whole.data(), RUEDA_I32, {size * rows});
        expect_code(rueda_allgather(session, in.get(), out.get(), &options), RUEDA_OK, rueda_last_error());
        expect(whole == expected, std::to_string(rows) + " rows each");
      }
    });
  }
}

TEST_CASE("memory around an input at another rank's rows, or of unequal parts, is refused") {
  run_ranks(2, [](rueda_session* session, int rank) {
    std::vector<int32_t> whole(20);
    const CTensor there(whole.data() + (1 - rank) * 10, RUEDA_I32, {10});
    const CTensor here(whole.data() + rank * 10, RUEDA_I32, {10});
    const CTensor out(whole.data(), RUEDA_I32, {20});
    const rueda_op_options options = with_same_rows("rows");
    const rueda_op_options any = named("rows");
    for (const int32_t code : {rueda_allgather(session, there.get(), out.get(), &options),
                               rueda_allgather(session, here.get(), out.get(), &any)}) {
      expect_code(code, RUEDA_INVALID_ARGUMENT, "overlap");
      expect(std::string(rueda_last_error()).find("overlaps the input") != std::string::npos, rueda_last_error());
    }
  });
}

/// Rank 1 of three gives `rows` and says `same`; the others give 4 and say that all give as many.
void expect_sentence(int64_t rows, int32_t same, const std::string& shape) {
  run_ranks(3, [&](rueda_session* session, int rank) {
    std::vector<int32_t> part = part_of(rank, 8);
    const CTensor in(part.data(), RUEDA_I32, {rank == 1 ? rows : 4, 2});
    rueda_op_options options = with_same_rows("w");
    if (rank == 1) options.same_rows = same;
    rueda_handle handle = 0;
    expect_code(rueda_allgather_async(session, in.get(), nullptr, &options, &handle), RUEDA_OK, "enqueue");
    const Ending ending = finish(handle);
    expect_code(ending.code, RUEDA_MISMATCH, "rows");
    expect(ending.sentence.find("allgather \"w\": shape differs: rank 0 ") == 0, ending.sentence);
    expect(ending.sentence.find(" sent [4, 2], rank 1 ") != std::string::npos, ending.sentence);
    expect(ending.sentence.find(" sent " + shape) != std::string::npos, ending.sentence);
  });
}

TEST_CASE("a rank that gives other rows than the others, or does not say that they are as many, is named") {
  expect_sentence(3, 1, "[3, 2]");
  expect_sentence(0, 1, "[*, 2]");
  expect_sentence(4, 0, "[*, 2]");
}

TEST_CASE("same_rows is 0 or 1, and other operations ignore it") {
  run_ranks(1, [](rueda_session* session, int) {
    std::vector<int32_t> values = {1, 2};
    const CTensor tensor(values, RUEDA_I32);
    rueda_op_options options = with_same_rows("w");
    expect_code(rueda_allreduce(session, tensor.get(), tensor.get(), RUEDA_SUM, &options), RUEDA_OK, "all-reduce");
    options.same_rows = 2;
    expect_code(rueda_allreduce(session, tensor.get(), tensor.get(), RUEDA_SUM, &options), RUEDA_INVALID_ARGUMENT, "2");
    expect(std::string(rueda_last_error()).find("same_rows is 2; it must be 0 or 1") != std::string::npos,
           rueda_last_error());
  });
}

}  // namespace
}  // namespace rueda::test
