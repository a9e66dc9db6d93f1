// Reduce-scatter: every rank gets its rows of the sum, wherever they are to lie.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "tests/bindings/operations.h"
#include "tests/support/scale.h"

namespace rueda::test {
namespace {

constexpr int64_t kWidth = 3;

struct OwnRows {
  int64_t begin;
  int64_t end;
};

OwnRows own_rows(int64_t rows, int size, int rank) {
  const auto begin = [&](int64_t at) { return at * (rows / size) + std::min(at, rows % size); };
  return {begin(rank), begin(rank + 1)};
}

std::vector<float> input_of(int64_t rows, int rank) {
  std::vector<float> values(static_cast<size_t>(rows * kWidth));
  std::iota(values.begin(), values.end(), static_cast<float>(rank));
  return values;
}

void expect_rows(const float* got, int64_t rows, int size, int rank, const std::string& what) {
  const OwnRows own = own_rows(rows, size, rank);
  for (int64_t i = 0; i < (own.end - own.begin) * kWidth; ++i) {
    const auto element = static_cast<float>(own.begin * kWidth + i);
    const float wanted = element * static_cast<float>(size) + static_cast<float>(size * (size - 1)) / 2;
    expect(got[i] == wanted, what + ": rank " + std::to_string(rank) + ", element " + std::to_string(i));
  }
}

}  // namespace

TEST_CASE("each rank gets its rows of the sum, the first ones one more, in place and out of place") {
  for (const int size : {1, 2, 3}) {
    run_ranks(size, [size](rueda_session* session, int rank) {
      for (const int64_t rows :
           {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{3}, int64_t{7}, int64_t{core::kThorough ? 20'000 : 11'000}}) {
        const OwnRows own = own_rows(rows, size, rank);
        const std::string name = "w" + std::to_string(rows);
        const rueda_op_options options = named(name.c_str());
        for (int step = 0; step < 3; ++step) {
          std::vector<float> in = input_of(rows, rank);
          std::vector<float> out(static_cast<size_t>((own.end - own.begin) * kWidth));
          const CTensor input(in.data(), RUEDA_F32, {rows, kWidth});
          const CTensor apart(out.data(), RUEDA_F32, {own.end - own.begin, kWidth});
          expect_code(rueda_reducescatter(session, input.get(), apart.get(), RUEDA_SUM, &options), RUEDA_OK, name);
          expect_rows(out.data(), rows, size, rank, name);
          expect(in == input_of(rows, rank), "the input was written");
          float* const place = in.data() + own.begin * kWidth;
          const CTensor within(place, RUEDA_F32, {own.end - own.begin, kWidth});
          expect_code(rueda_reducescatter(session, input.get(), within.get(), RUEDA_SUM, &options), RUEDA_OK, name);
          expect_rows(place, rows, size, rank, name + " in place");
        }
      }
    });
  }
}

TEST_CASE("the rows of a reduce-scatter may lie in memory of the library's or of allocate's") {
  run_ranks(3, [](rueda_session* session, int rank) {
    void* given = nullptr;
    for (const int64_t rows : {2, 1000}) {
      std::vector<float> in = input_of(rows, rank);
      const CTensor input(in.data(), RUEDA_F32, {rows, kWidth});
      rueda_op_options options = named("w");
      for (int step = 0; step < 2; ++step) {
        if (step == 1) {
          options.allocate_context = &given;
          options.allocate = [](void* context, size_t bytes, int32_t, int32_t, void*) {
            void*& memory = *static_cast<void**>(context);
            return memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
          };
        }
        rueda_handle handle = 0;
        expect_code(rueda_reducescatter_async(session, input.get(), nullptr, RUEDA_SUM, &options, &handle), RUEDA_OK,
                    "enqueue");
        expect_code(rueda_wait(handle, -1), RUEDA_OK, "wait");
        rueda_tensor output{};
        output.struct_size = sizeof output;
        expect_code(rueda_output(handle, 0, &output), RUEDA_OK, "output");
        const OwnRows own = own_rows(rows, 3, rank);
        expect(output.dimensions == 2 && output.shape[0] == own.end - own.begin && output.shape[1] == kWidth,
               "the shape");
        expect(given == nullptr || output.data == given, "the output is elsewhere");
        expect_rows(static_cast<const float*>(output.data), rows, 3, rank, "late");
        expect_code(rueda_release(handle), RUEDA_OK, "release");
        std::free(std::exchange(given, nullptr));
      }
    }
  });
}

TEST_CASE("a group of reduce-scatters completes together and averages what is scaled") {
  run_ranks(2, [](rueda_session* session, int rank) {
    std::vector<int32_t> a = {10, 20, 30};
    std::vector<double> b = {1, 2};
    std::vector<int32_t> a_out(rank == 0 ? 2 : 1);
    std::vector<double> b_out(1);
    const CTensor first(a, RUEDA_I32);
    const CTensor second(b, RUEDA_F64);
    const CTensor first_out(a_out, RUEDA_I32);
    const CTensor second_out(b_out, RUEDA_F64);
    const rueda_tensor inputs[] = {*first.get(), *second.get()};
    const rueda_tensor outputs[] = {*first_out.get(), *second_out.get()};
    rueda_op_options options = named("g");
    options.has_scale = 1;
    options.prescale = 1;
    options.postscale = 2;
    for (int step = 0; step < 3; ++step) {
      expect_code(rueda_grouped_reducescatter(session, 2, inputs, outputs, nullptr, RUEDA_AVERAGE, &options), RUEDA_OK,
                  "group");
      expect(a_out == (rank == 0 ? std::vector<int32_t>{20, 40} : std::vector<int32_t>{60}), "the integers");
      expect(b_out[0] == (rank == 0 ? 2.0 : 4.0), "the doubles");
    }
  });
}

TEST_CASE("a reduce-scatter that cannot be is refused at enqueue") {
  run_ranks(2, [](rueda_session* session, int rank) {
    std::vector<float> in(6, 1);
    std::vector<float> out(6);
    const rueda_op_options options = named("w");
    const auto refused = [&](const CTensor& input, const CTensor& output, const std::string& word) {
      rueda_handle handle = 1;
      expect_code(rueda_reducescatter_async(session, input.get(), output.get(), RUEDA_SUM, &options, &handle),
                  RUEDA_INVALID_ARGUMENT, word);
      expect(handle == 0, "a handle was given out");
      expect(std::string(rueda_last_error()).find(word) != std::string::npos, rueda_last_error());
    };
    const CTensor input(in, RUEDA_F32);
    refused(input, CTensor(out, RUEDA_F32), "[3]");
    refused(CTensor(in.data(), RUEDA_F32, {}), CTensor(out.data(), RUEDA_F32, {}), "dimension 0");
    refused(input, CTensor(in.data() + (rank == 0 ? 1 : 0), RUEDA_F32, {3}), "overlaps");
    expect_code(rueda_reducescatter(session, input.get(), nullptr, RUEDA_SUM, &options), RUEDA_INVALID_ARGUMENT,
                "blocking without a place");
    expect_usable(session, "w");
  });
}

}  // namespace rueda::test
