// What the numbers are: spot checks of the promises of rueda.h, each against a formula.
#include <catch2/catch.hpp>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/bindings/operations.h"
#include "tests/support/float_reference.h"
#include "tests/support/scale.h"

namespace rueda::test {
namespace {

// Reduces one element per rank, `given(rank)`, and expects `wanted` on all ranks.
template <typename T, typename Given>
void expect_reduced(int ranks, int32_t dtype, int32_t op, Given given, T wanted, double prescale = 1,
                    double postscale = 1) {
  run_ranks(ranks, [&](rueda_session* session, int rank) {
    std::vector<T> value = {static_cast<T>(given(rank))};
    const CTensor tensor(value, dtype);
    rueda_op_options options = named("w");
    options.has_scale = 1;
    options.prescale = prescale;
    options.postscale = postscale;
    expect_code(rueda_allreduce(session, tensor.get(), tensor.get(), op, &options), RUEDA_OK, "allreduce");
    // The same bits are meant. NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
    const bool same = std::memcmp(value.data(), &wanted, sizeof(T)) == 0;
    expect(same, "rank " + std::to_string(rank) + " got " + std::to_string(value[0]) + ", expected " +
                     std::to_string(wanted));
  });
}

}  // namespace

TEST_CASE("an average of integers truncates toward zero") {
  expect_reduced<int32_t>(
      2, RUEDA_I32, RUEDA_AVERAGE, [](int rank) { return rank == 0 ? 2 : 5; }, 3);
  expect_reduced<int32_t>(
      2, RUEDA_I32, RUEDA_AVERAGE, [](int rank) { return rank == 0 ? -2 : -5; }, -3);
  expect_reduced<uint8_t>(
      3, RUEDA_U8, RUEDA_AVERAGE, [](int) { return 255; }, 255);
}

TEST_CASE("an average of 64-bit integers is exact where their sum would overflow") {
  const int64_t most = std::numeric_limits<int64_t>::max();
  expect_reduced<int64_t>(
      3, RUEDA_I64, RUEDA_AVERAGE, [&](int rank) { return most - rank; }, most - 1);
  expect_reduced<uint64_t>(
      2, RUEDA_U64, RUEDA_AVERAGE, [](int) { return ~uint64_t{0}; }, ~uint64_t{0});
}

TEST_CASE("a sum of integers wraps") {
  expect_reduced<int8_t>(
      2, RUEDA_I8, RUEDA_SUM, [](int) { return 100; }, static_cast<int8_t>(200 - 256));
}

TEST_CASE("min, max and product reduce over the ranks") {
  const auto given = [](int rank) { return rank + 2; };
  expect_reduced<float>(3, RUEDA_F32, RUEDA_MIN, given, 2);
  expect_reduced<float>(3, RUEDA_F32, RUEDA_MAX, given, 4);
  expect_reduced<double>(3, RUEDA_F64, RUEDA_PRODUCT, given, 24);
}

TEST_CASE("NaN goes through min and max, whichever rank has it") {
  for (const int32_t op : {RUEDA_MIN, RUEDA_MAX}) {
    for (int where = 0; where < 2; ++where) {
      run_ranks(2, [&](rueda_session* session, int rank) {
        std::vector<float> value = {rank == where ? std::numeric_limits<float>::quiet_NaN() : 1.0F};
        const CTensor tensor(value, RUEDA_F32);
        expect_code(rueda_allreduce(session, tensor.get(), tensor.get(), op, nullptr), RUEDA_OK, "allreduce");
        expect(std::isnan(value[0]), "NaN of rank " + std::to_string(where) + " was lost");
      });
    }
  }
}

TEST_CASE("sum of bool is or, product is and") {
  const auto first_only = [](int rank) { return rank == 0 ? 1 : 0; };
  expect_reduced<uint8_t>(3, RUEDA_BOOL, RUEDA_SUM, first_only, 1);
  expect_reduced<uint8_t>(
      3, RUEDA_BOOL, RUEDA_SUM, [](int) { return 1; }, 1);
  expect_reduced<uint8_t>(3, RUEDA_BOOL, RUEDA_PRODUCT, first_only, 0);
}

TEST_CASE("bitwise and, or and xor reduce integers bit by bit") {
  const auto given = [](int rank) { return rank == 0 ? 0x5c : rank == 1 ? 0x39 : 0x1f; };
  expect_reduced<uint8_t>(3, RUEDA_U8, RUEDA_BAND, given, 0x18);
  expect_reduced<int64_t>(3, RUEDA_I64, RUEDA_BOR, given, 0x7f);
  expect_reduced<int32_t>(
      3, RUEDA_I32, RUEDA_BXOR, [&](int rank) { return -given(rank); }, -0x5c ^ -0x39 ^ -0x1f);
  expect_reduced<uint8_t>(
      3, RUEDA_BOOL, RUEDA_BXOR, [](int rank) { return rank < 2 ? 1 : 0; }, 0);
}

TEST_CASE("complex numbers have a sum, an average and a product, and no codec applies to them") {
  using Number = std::complex<float>;
  const struct {
    int32_t op;
    Number wanted;
  } cases[] = {
      {RUEDA_SUM, {6, 3}}, {RUEDA_AVERAGE, {2, 1}}, {RUEDA_PRODUCT, Number(1, 0) * Number(2, 1) * Number(3, 2)}};
  run_ranks(3, [&](rueda_session* session, int rank) {
    for (const auto& each : cases) {
      std::vector<Number> values(1001, Number(static_cast<float>(rank + 1), static_cast<float>(rank)));
      rueda_op_options options = named("w");
      options.codec = RUEDA_CODEC_FP16;
      const CTensor tensor(values, RUEDA_COMPLEX64);
      expect_code(rueda_allreduce(session, tensor.get(), tensor.get(), each.op, &options), RUEDA_OK, "allreduce");
      for (const Number value : values) expect(value == each.wanted, "op " + std::to_string(each.op));
    }
  });
}

TEST_CASE("prescale multiplies the input and postscale the sum") {
  const auto given = [](int rank) { return 1 + rank; };
  expect_reduced<float>(2, RUEDA_F32, RUEDA_SUM, given, 3 * 0.5F * 8, 0.5, 8);
  expect_reduced<float>(2, RUEDA_F32, RUEDA_AVERAGE, given, 1.5F * 0.25F * 4, 0.25, 4);
  // On integers in double and truncated before the sum: 0.5 * 3 is 1, twice.
  expect_reduced<int32_t>(
      2, RUEDA_I32, RUEDA_SUM, [](int) { return 3; }, 2, 0.5, 1);
}

TEST_CASE("with one rank an all-reduce is the identity, scaled") {
  for (const int32_t op : {RUEDA_AVERAGE, RUEDA_SUM, RUEDA_MIN, RUEDA_MAX, RUEDA_PRODUCT}) {
    expect_reduced<float>(
        1, RUEDA_F32, op, [](int) { return 3; }, 3);
  }
  expect_reduced<float>(
      1, RUEDA_F32, RUEDA_SUM, [](int) { return 3; }, 3 * 0.5F * 4, 0.5, 4);
}

TEST_CASE("16-bit sums accumulate in 32 bits and round once") {
  // 2048 + 1 + 1: each step alone would round back to 2048.
  expect_reduced<uint16_t>(
      3, RUEDA_F16, RUEDA_SUM, [](int rank) { return nearest(kBinary16, rank == 0 ? 2048 : 1); },
      nearest(kBinary16, 2050));
  expect_reduced<uint16_t>(
      3, RUEDA_BF16, RUEDA_SUM, [](int rank) { return nearest(kBfloat16, rank == 0 ? 256 : 1); },
      nearest(kBfloat16, 258));
}

TEST_CASE("a codec rounds what travels, with the same bits on all ranks") {
  constexpr int kRanks = 3;
  constexpr size_t kCount = 1001;
  for (const int32_t codec : {RUEDA_CODEC_FP16, RUEDA_CODEC_BF16}) {
    const SmallFloat format = codec == RUEDA_CODEC_FP16 ? kBinary16 : kBfloat16;
    const auto given = [](int rank, size_t i) {
      return static_cast<float>(0.1 * (rank + 1) + static_cast<double>(i) * 0.001);
    };
    std::vector<std::vector<float>> results(kRanks, std::vector<float>(kCount));
    run_ranks(kRanks, [&](rueda_session* session, int rank) {
      std::vector<float>& values = results[static_cast<size_t>(rank)];
      for (size_t i = 0; i < kCount; ++i) values[i] = given(rank, i);
      rueda_op_options options = named("w");
      options.codec = codec;
      const CTensor tensor(values, RUEDA_F32);
      expect_code(rueda_allreduce(session, tensor.get(), tensor.get(), RUEDA_SUM, &options), RUEDA_OK, "allreduce");
    });
    for (size_t i = 0; i < kCount; ++i) {
      double exact = 0;
      for (int rank = 0; rank < kRanks; ++rank)
        exact += value_of(format, nearest(format, static_cast<double>(given(rank, i))));
      // Inputs are rounded once and the sum once: within a unit in the last place of the format.
      const double unit = std::ldexp(std::abs(exact), -format.fraction_bits);
      INFO("element " << i << ", codec " << codec);
      REQUIRE(std::abs(static_cast<double>(results[0][i]) - exact) <= unit);
    }
    CHECK(results[0] == results[1]);
    CHECK(results[0] == results[2]);
  }
}

TEST_CASE("RUEDA_COMPRESSION is the codec of calls that name none") {
  setenv("RUEDA_COMPRESSION", "fp16", 1);
  const float third = 1.0F / 3;
  const auto rounded = static_cast<float>(value_of(kBinary16, nearest(kBinary16, static_cast<double>(third))));
  run_ranks(2, [&](rueda_session* session, int rank) {
    for (const int32_t codec : {RUEDA_CODEC_DEFAULT, RUEDA_CODEC_NONE}) {
      std::vector<float> value = {rank == 0 ? third : 0};
      rueda_op_options options = named("w");
      options.codec = codec;
      const CTensor tensor(value, RUEDA_F32);
      expect_code(rueda_allreduce(session, tensor.get(), tensor.get(), RUEDA_SUM, &options), RUEDA_OK, "allreduce");
      expect(value[0] == (codec == RUEDA_CODEC_NONE ? third : rounded),
             "codec " + std::to_string(codec) + " gave another value");
    }
  });
  unsetenv("RUEDA_COMPRESSION");
}

TEST_CASE("a broadcast copies the root's bits into place and out of place") {
  for (int root = 0; root < 3; ++root) {
    run_ranks(3, [&](rueda_session* session, int rank) {
      std::vector<int64_t> values(5000);
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i) * 3 + rank;
      const std::vector<int64_t> own = values;
      std::vector<int64_t> out(values.size());
      const CTensor in_place(values, RUEDA_I64);
      const CTensor output(out, RUEDA_I64);
      expect_code(rueda_broadcast(session, in_place.get(), output.get(), root, nullptr), RUEDA_OK, "out of place");
      expect(values == own, "a broadcast out of place wrote to its input");
      expect_code(rueda_broadcast(session, in_place.get(), in_place.get(), root, nullptr), RUEDA_OK, "in place");
      for (size_t i = 0; i < values.size(); ++i) {
        const int64_t wanted = static_cast<int64_t>(i) * 3 + root;
        expect(values[i] == wanted && out[i] == wanted, "element " + std::to_string(i));
      }
    });
  }
}

TEST_CASE("a broadcast moves opaque elements of any size and at any address") {
  for (const size_t element : {size_t{1}, size_t{3}, size_t{24}, size_t{4099}}) {
    run_ranks(3, [&](rueda_session* session, int rank) {
      constexpr size_t kElements = 37;
      std::vector<uint8_t> bytes(kElements * element + 1);
      for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7 + static_cast<size_t>(rank) * 11);
      CTensor tensor(bytes.data() + 1, RUEDA_OPAQUE, {kElements});
      tensor->element_bytes = element;
      rueda_handle handle = 0;
      const rueda_op_options options = named("anything");
      expect_code(rueda_broadcast_async(session, tensor.get(), tensor.get(), 2, &options, &handle), RUEDA_OK, "start");
      expect_code(rueda_wait(handle, -1), RUEDA_OK, "broadcast");
      for (size_t i = 1; i < bytes.size(); ++i) {
        expect(bytes[i] == static_cast<uint8_t>(i * 7 + 22), "byte " + std::to_string(i));
      }
      rueda_tensor output{};
      output.struct_size = sizeof output;
      expect_code(rueda_output(handle, 0, &output), RUEDA_OK, "output");
      expect(output.dtype == RUEDA_OPAQUE && output.element_bytes == element && output.dimensions == 1 &&
                 output.shape[0] == static_cast<int64_t>(kElements),
             "the output's element size or shape is another");
      expect_code(rueda_release(handle), RUEDA_OK, "release");
    });
  }
}

TEST_CASE("large groups and large tensors give every element its sum") {
  constexpr size_t kTensors = core::kThorough ? 400 : 100;
  run_ranks(3, [&](rueda_session* session, int rank) {
    std::vector<std::vector<float>> values;
    std::vector<rueda_tensor> tensors;
    std::vector<int64_t> shapes(kTensors);
    for (size_t i = 0; i < kTensors; ++i) {
      shapes[i] = static_cast<int64_t>(i % 7 == 0 ? 70000 : i);
      values.emplace_back(static_cast<size_t>(shapes[i]), static_cast<float>(static_cast<size_t>(rank) + i));
      tensors.push_back(
          {sizeof(rueda_tensor), values[i].data(), RUEDA_F32, 1, &shapes[i], RUEDA_DEVICE_CPU, 0, 0, nullptr});
    }
    const rueda_op_options options = named("g");
    for (int step = 0; step < 2; ++step) {
      expect_code(rueda_grouped_allreduce(session, kTensors, tensors.data(), tensors.data(), nullptr,
                                          step == 0 ? RUEDA_SUM : RUEDA_MAX, step == 0 ? &options : nullptr),
                  RUEDA_OK, "group");
    }
    for (size_t i = 0; i < kTensors; ++i) {
      for (const float value : values[i]) {
        if (value != static_cast<float>(3 + 3 * i)) expect(false, "tensor " + std::to_string(i));
      }
    }
  });
}

TEST_CASE("adasum averages what is parallel and adds what is orthogonal, on any number of ranks") {
  for (const int size : {1, 2, 3, 5}) {
    run_ranks(size, [size](rueda_session* session, int rank) {
      for (int step = 0; step < 3; ++step) {
        std::vector<float> same = {3, -1, 2};
        std::vector<float> apart(static_cast<size_t>(size), 0);
        apart[static_cast<size_t>(rank)] = 7;
        const CTensor first(same, RUEDA_F32);
        const CTensor second(apart, RUEDA_F32);
        const rueda_tensor tensors[] = {*first.get(), *second.get()};
        const rueda_op_options options = named("g");
        expect_code(rueda_grouped_allreduce(session, 2, tensors, tensors, nullptr, RUEDA_ADASUM, &options), RUEDA_OK,
                    "adasum");
        expect(same == std::vector<float>{3, -1, 2}, "parallel vectors were not averaged");
        expect(apart == std::vector<float>(static_cast<size_t>(size), 7), "orthogonal vectors were not added");
      }
      std::vector<int32_t> whole = {1};
      const CTensor integers(whole, RUEDA_I32);
      expect_code(rueda_allreduce(session, integers.get(), integers.get(), RUEDA_ADASUM, nullptr),
                  RUEDA_INVALID_ARGUMENT, "adasum of integers");
      std::vector<float> value = {1};
      const CTensor floats(value, RUEDA_F32);
      expect_code(rueda_reduce(session, floats.get(), floats.get(), RUEDA_ADASUM, 0, nullptr), RUEDA_INVALID_ARGUMENT,
                  "a reduce with adasum");
    });
  }
}

}  // namespace rueda::test
