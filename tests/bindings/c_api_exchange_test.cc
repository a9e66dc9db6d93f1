// All-gather, all-to-all, gather and scatter: rows that only their sender counts.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "tests/bindings/operations.h"

namespace rueda::test {
namespace {

constexpr int64_t kColumns = 2;

/// Elements of row `row` that `rank` sends in `step`.
float element(int rank, int step, int64_t row, int64_t column) {
  return static_cast<float>(rank * 1000 + step * 100) + static_cast<float>(row * kColumns + column);
}

std::vector<float> sent_rows(int rank, int step, int64_t rows) {
  std::vector<float> values;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < kColumns; ++column) values.push_back(element(rank, step, row, column));
  }
  return values;
}

rueda_tensor late_member(rueda_handle handle, size_t index = 0) {
  rueda_tensor output{};
  output.struct_size = sizeof output;
  expect_code(rueda_output(handle, index, &output), RUEDA_OK, "output");
  return output;
}

std::vector<float> values_of(const rueda_tensor& tensor) {
  expect(tensor.dtype == RUEDA_F32 && tensor.dimensions == 2 && tensor.shape[1] == kColumns, "dtype or shape");
  const auto* data = static_cast<const float*>(tensor.data);
  return {data, data + tensor.shape[0] * kColumns};
}

std::vector<int64_t> received(rueda_handle handle) {
  std::vector<int64_t> splits(64);
  size_t count = 0;
  expect_code(rueda_received_splits(handle, splits.data(), splits.size(), &count), RUEDA_OK, "received splits");
  splits.resize(count);
  return splits;
}

void wait_for(rueda_handle handle) {
  const int32_t code = rueda_wait(handle, -1);
  expect(code == RUEDA_OK, rueda_handle_error(handle));
}

void append(std::vector<float>& to, const std::vector<float>& values) {
  to.insert(to.end(), values.begin(), values.end());
}

}  // namespace

TEST_CASE("an all-gather puts the rows of all ranks in their order, however many each has from step to step") {
  for (const int size : {1, 2, 3}) {
    run_ranks(size, [size](rueda_session* session, int rank) {
      const rueda_op_options options = named("w");
      for (int step = 0; step < 6; ++step) {
        const auto rows = [step](int of) { return (of * 5 + step * 7) % 9 * (step == 5 ? 10'000 : 1); };
        std::vector<float> in = sent_rows(rank, step, rows(rank));
        const CTensor input(in.data(), RUEDA_F32, {rows(rank), kColumns});
        rueda_handle handle = 0;
        expect_code(rueda_allgather_async(session, input.get(), nullptr, &options, &handle), RUEDA_OK, "enqueue");
        wait_for(handle);
        std::vector<float> wanted;
        std::vector<int64_t> counts;
        for (int other = 0; other < size; ++other) {
          append(wanted, sent_rows(other, step, rows(other)));
          counts.push_back(rows(other));
        }
        expect(values_of(late_member(handle)) == wanted, "the rows of step " + std::to_string(step));
        expect(received(handle) == counts, "the counts");
        expect_code(rueda_release(handle), RUEDA_OK, "release");
      }
    });
  }
}

TEST_CASE("an all-gather fills given memory of the right shape, and refuses another on that rank alone") {
  run_ranks(3, [](rueda_session* session, int rank) {
    const rueda_op_options options = named("w");
    for (int step = 0; step < 4; ++step) {
      std::vector<float> in = sent_rows(rank, step, rank + 1);
      const int64_t given = step % 2 == 1 && rank == 1 ? 5 : 6;
      std::vector<float> out(6 * kColumns);
      const CTensor input(in.data(), RUEDA_F32, {rank + 1, kColumns});
      const CTensor output(out.data(), RUEDA_F32, {given, kColumns});
      rueda_handle handle = 0;
      expect_code(rueda_allgather_async(session, input.get(), output.get(), &options, &handle), RUEDA_OK, "enqueue");
      const Ending ending = finish(handle);
      expect_code(ending.code, given == 6 ? RUEDA_OK : RUEDA_INVALID_ARGUMENT, "the wait");
      if (given == 6) {
        std::vector<float> wanted;
        for (int other = 0; other < 3; ++other) append(wanted, sent_rows(other, step, other + 1));
        expect(out == wanted, "the rows");
      } else {
        expect(
            ending.sentence.find("[5, 2]") != std::string::npos && ending.sentence.find("[6, 2]") != std::string::npos,
            ending.sentence);
      }
    }
    expect_usable(session, "afterwards");
  });
}

TEST_CASE("allocate is asked once all rows are counted, and a rank without memory fails alone") {
  struct Memory {
    size_t bytes = 0;
    void* place = nullptr;
    bool none = false;
  };
  run_ranks(2, [](rueda_session* session, int rank) {
    for (int step = 0; step < 4; ++step) {
      Memory memory;
      memory.none = step == 2 && rank == 1;
      rueda_op_options options = named("w");
      options.allocate_context = &memory;
      options.allocate = [](void* context, size_t bytes, int32_t, int32_t, void*) -> void* {
        auto& mine = *static_cast<Memory*>(context);
        mine.bytes += bytes;
        mine.place = mine.none ? nullptr : std::aligned_alloc(64, (bytes + 63) / 64 * 64);
        return mine.place;
      };
      std::vector<float> in = sent_rows(rank, step, 40'000);
      const CTensor input(in.data(), RUEDA_F32, {40'000, kColumns});
      rueda_handle handle = 0;
      expect_code(rueda_allgather_async(session, input.get(), nullptr, &options, &handle), RUEDA_OK, "enqueue");
      expect_code(rueda_wait(handle, -1), memory.none ? RUEDA_SYSTEM : RUEDA_OK, "wait");
      expect(memory.bytes == 80'000 * kColumns * sizeof(float), "bytes asked for");
      if (!memory.none) expect(late_member(handle).data == memory.place, "the output is elsewhere");
      expect_code(rueda_release(handle), RUEDA_OK, "release");
      std::free(memory.place);
    }
    expect_usable(session, "afterwards");
  });
}

TEST_CASE("an all-to-all deals rows out by splits, or evenly, and says what came from whom") {
  for (const int size : {1, 2, 3}) {
    run_ranks(size, [size](rueda_session* session, int rank) {
      const rueda_op_options options = named("w");
      const auto part = [](int from, int to, int step) {
        return int64_t{step == 3 ? 20'000 : 1} * ((from + 2 * to + step) % 4);
      };
      for (int step = 0; step < 5; ++step) {
        std::vector<int64_t> splits;
        int64_t rows = 0;
        for (int to = 0; to < size; ++to) rows += splits.emplace_back(step == 4 ? 2 : part(rank, to, step));
        std::vector<float> in = sent_rows(rank, step, rows);
        const CTensor input(in.data(), RUEDA_F32, {rows, kColumns});
        rueda_handle handle = 0;
        expect_code(
            rueda_alltoall_async(session, input.get(), step == 4 ? nullptr : splits.data(), nullptr, &options, &handle),
            RUEDA_OK, "enqueue");
        wait_for(handle);
        std::vector<float> wanted;
        std::vector<int64_t> counts;
        for (int from = 0; from < size; ++from) {
          int64_t before = 0;
          for (int to = 0; to < rank; ++to) before += step == 4 ? 2 : part(from, to, step);
          counts.push_back(step == 4 ? 2 : part(from, rank, step));
          for (int64_t row = before; row < before + counts.back(); ++row) {
            for (int64_t column = 0; column < kColumns; ++column) wanted.push_back(element(from, step, row, column));
          }
        }
        expect(values_of(late_member(handle)) == wanted, "the rows of step " + std::to_string(step));
        expect(received(handle) == counts, "the counts");
        expect_code(rueda_release(handle), RUEDA_OK, "release");
      }
    });
  }
}

TEST_CASE("splits that do not add up are refused at enqueue") {
  run_ranks(2, [](rueda_session* session, int) {
    std::vector<float> in(5);
    const CTensor input(in, RUEDA_F32);
    const CTensor scalar(in.data(), RUEDA_F32, {});
    const rueda_op_options options = named("w");
    const auto refused = [&](const CTensor& tensor, const int64_t* splits, const std::string& word) {
      rueda_handle handle = 1;
      expect_code(rueda_alltoall_async(session, tensor.get(), splits, nullptr, &options, &handle),
                  RUEDA_INVALID_ARGUMENT, word);
      expect(handle == 0 && std::string(rueda_last_error()).find(word) != std::string::npos, rueda_last_error());
    };
    const int64_t few[] = {2, 2};
    const int64_t many[] = {2, 4};
    const int64_t negative[] = {6, -1};
    refused(input, few, "add up to 4");
    refused(input, many, "splits[1] is 4");
    refused(input, negative, "splits[0] is 6");
    refused(input, nullptr, "multiple of the 2 ranks");
    refused(scalar, nullptr, "dimension 0");
    const CTensor within(in.data() + 1, RUEDA_F32, {4});
    rueda_handle handle = 1;
    expect_code(rueda_allgather_async(session, input.get(), within.get(), &options, &handle), RUEDA_INVALID_ARGUMENT,
                "an output inside the input");
    expect_code(rueda_allgather(session, input.get(), nullptr, &options), RUEDA_INVALID_ARGUMENT,
                "blocking without a place");
    expect_usable(session, "w");
  });
}

TEST_CASE("gather and scatter move rows to and from any root") {
  run_ranks(3, [](rueda_session* session, int rank) {
    const rueda_op_options options = named("w");
    for (int step = 0; step < 6; ++step) {
      const int root = step % 3;
      std::vector<float> in = sent_rows(rank, step, rank + step);
      const CTensor input(in.data(), RUEDA_F32, {rank + step, kColumns});
      rueda_handle handle = 0;
      expect_code(rueda_gather_async(session, input.get(), nullptr, root, &options, &handle), RUEDA_OK, "gather");
      wait_for(handle);
      std::vector<float> all;
      for (int other = 0; other < 3 && rank == root; ++other) append(all, sent_rows(other, step, other + step));
      expect(values_of(late_member(handle)) == all, "the gathered rows");
      expect_code(rueda_release(handle), RUEDA_OK, "release");

      std::vector<float> source = sent_rows(root, step, 7);
      const CTensor dealt(rank == root ? source.data() : nullptr, RUEDA_F32, {rank == root ? 7 : 0, kColumns});
      const int64_t splits[] = {1, 0, 6};
      expect_code(
          rueda_scatter_async(session, dealt.get(), step < 3 ? nullptr : splits, nullptr, root, &options, &handle),
          RUEDA_OK, "scatter");
      wait_for(handle);
      const int64_t begin = step < 3 ? (rank == 0 ? 0 : rank * 2 + 1) : (rank == 0 ? 0 : 1);
      const int64_t rows = step < 3 ? (rank == 0 ? 3 : 2) : splits[rank];
      const std::vector<float> part(source.begin() + begin * kColumns, source.begin() + (begin + rows) * kColumns);
      expect(values_of(late_member(handle)) == part, "the scattered rows");
      expect_code(rueda_release(handle), RUEDA_OK, "release");
    }
  });
}

TEST_CASE("a scatter's receiver may describe only its output") {
  run_ranks(2, [](rueda_session* session, int rank) {
    const rueda_op_options options = named("w");
    std::vector<float> source = sent_rows(0, 0, 4);
    std::vector<float> out(2 * kColumns);
    const CTensor input(source.data(), RUEDA_F32, {4, kColumns});
    const CTensor output(out.data(), RUEDA_F32, {2, kColumns});
    expect_code(rueda_scatter(session, rank == 0 ? input.get() : nullptr, nullptr, output.get(), 0, &options), RUEDA_OK,
                "scatter");
    expect(out == std::vector<float>(source.begin() + rank * 4, source.begin() + rank * 4 + 4), "the rows");
  });
}

TEST_CASE("a reduce gives the root the sum and leaves the others' tensors alone") {
  run_ranks(3, [](rueda_session* session, int rank) {
    for (int root = 0; root < 3; ++root) {
      for (const size_t count : {size_t{0}, size_t{1}, size_t{200'000}}) {
        std::vector<float> values(count, static_cast<float>(rank + 1));
        const CTensor tensor(values, RUEDA_F32);
        const std::string name = "w" + std::to_string(count);
        const rueda_op_options options = named(name.c_str());
        expect_code(rueda_reduce(session, tensor.get(), tensor.get(), RUEDA_SUM, root, &options), RUEDA_OK, "reduce");
        expect(values == std::vector<float>(count, rank == root ? 6.0F : static_cast<float>(rank + 1)), "the values");
      }
    }
    std::vector<float> values(3, 1);
    const CTensor tensor(values, RUEDA_F32);
    expect_code(rueda_reduce(session, tensor.get(), tensor.get(), RUEDA_SUM, 3, nullptr), RUEDA_INVALID_ARGUMENT,
                "a root beyond the ranks");
  });
}

TEST_CASE("groups of exchanges and broadcasts complete together") {
  run_ranks(2, [](rueda_session* session, int rank) {
    for (int step = 0; step < 3; ++step) {
      std::vector<float> a = sent_rows(rank, step, rank + 1);
      std::vector<float> b = sent_rows(rank, step, 4);
      const CTensor first(a.data(), RUEDA_F32, {rank + 1, kColumns});
      const CTensor second(b.data(), RUEDA_F32, {4, kColumns});
      const rueda_tensor inputs[] = {*first.get(), *second.get()};
      const rueda_op_options options = named("g");
      rueda_handle handle = 0;
      expect_code(rueda_grouped_allgather_async(session, 2, inputs, nullptr, nullptr, &options, &handle), RUEDA_OK,
                  "group");
      wait_for(handle);
      expect(late_member(handle, 0).shape[0] == 3 && late_member(handle, 1).shape[0] == 8, "the shapes");
      expect(received(handle) == std::vector<int64_t>{1, 2, 4, 4}, "the counts");
      expect_code(rueda_release(handle), RUEDA_OK, "release");
      const int64_t one[] = {rank + 1, 0};
      const int64_t* const splits[] = {one, nullptr};
      expect_code(rueda_grouped_alltoall_async(session, 2, inputs, splits, nullptr, nullptr, &options, &handle),
                  RUEDA_OK, "group");
      wait_for(handle);
      expect(received(handle) == (rank == 0 ? std::vector<int64_t>{1, 2, 2, 2} : std::vector<int64_t>{0, 0, 2, 2}),
             "the counts");
      expect_code(rueda_release(handle), RUEDA_OK, "release");
      const rueda_tensor same[] = {*second.get(), *second.get()};
      std::vector<float> c = b;
      const CTensor third(c.data(), RUEDA_F32, {4, kColumns});
      const rueda_tensor outputs[] = {*second.get(), *third.get()};
      expect_code(rueda_grouped_broadcast(session, 2, same, outputs, nullptr, 1, &options), RUEDA_OK, "group");
      expect(b == sent_rows(1, step, 4) && c == b, "the broadcast");
    }
  });
}

TEST_CASE("rows of no bytes keep their number, and no rows at all are fine") {
  run_ranks(2, [](rueda_session* session, int rank) {
    const CTensor hollow(nullptr, RUEDA_F64, {rank + 3, 0});
    const CTensor none(nullptr, RUEDA_F64, {0, 5});
    for (int step = 0; step < 2; ++step) {
      rueda_handle handle = 0;
      const rueda_op_options options = named("hollow");
      expect_code(rueda_allgather_async(session, hollow.get(), nullptr, &options, &handle), RUEDA_OK, "hollow");
      wait_for(handle);
      expect(late_member(handle).shape[0] == 7 && late_member(handle).shape[1] == 0, "the shape");
      expect_code(rueda_release(handle), RUEDA_OK, "release");
      const rueda_op_options other = named("none");
      expect_code(rueda_alltoall_async(session, none.get(), nullptr, nullptr, &other, &handle), RUEDA_OK, "none");
      wait_for(handle);
      expect(late_member(handle).shape[0] == 0 && late_member(handle).shape[1] == 5, "the shape");
      expect_code(rueda_release(handle), RUEDA_OK, "release");
    }
  });
}

}  // namespace rueda::test
