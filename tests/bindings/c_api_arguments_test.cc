// What is refused at enqueue: nothing is enqueued, no number is taken, and the sentence names the culprit.
#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/bindings/refusals.h"

namespace rueda::test {
TEST_CASE("an unknown dtype is refused with its number") {
  for (const int32_t dtype : {-1, 16, 1000}) {
    each_rank_is_refused(
        [&](rueda_session* session, rueda_handle* handle) {
          std::vector<float> values(4);
          const CTensor tensor(values, dtype);
          return reduce(session, tensor.get(), RUEDA_SUM, nullptr, handle);
        },
        std::to_string(dtype));
  }
}

TEST_CASE("an unknown reduction operator is refused with its number") {
  for (const int32_t op : {-1, 9, 99}) {
    each_rank_is_refused(
        [&](rueda_session* session, rueda_handle* handle) {
          std::vector<float> values(4);
          const CTensor tensor(values, RUEDA_F32);
          return reduce(session, tensor.get(), op, nullptr, handle);
        },
        std::to_string(op));
  }
}

TEST_CASE("an operator that its dtype has no meaning for is refused with both") {
  const struct {
    int32_t dtype;
    int32_t op;
    const char* words;
  } calls[] = {{RUEDA_COMPLEX64, RUEDA_MIN, "min of c64"},
               {RUEDA_COMPLEX128, RUEDA_MAX, "max of c128"},
               {RUEDA_COMPLEX64, RUEDA_BAND, "band works on the bits of integers and bool; the tensor is c64"},
               {RUEDA_F32, RUEDA_BOR, "bor works on the bits of integers and bool; the tensor is f32"},
               {RUEDA_BF16, RUEDA_BXOR, "the tensor is bf16"},
               {RUEDA_BOOL, RUEDA_AVERAGE, "average of bool"}};
  for (const auto& call : calls) {
    each_rank_is_refused(
        [&](rueda_session* session, rueda_handle* handle) {
          std::vector<double> values(4);
          const CTensor tensor(values.data(), call.dtype, {1});
          return reduce(session, tensor.get(), call.op, nullptr, handle);
        },
        call.words);
  }
}

TEST_CASE("an unknown codec is refused with its number") {
  each_rank_is_refused(
      [](rueda_session* session, rueda_handle* handle) {
        std::vector<float> values(4);
        const CTensor tensor(values, RUEDA_F32);
        rueda_op_options options = named("w");
        options.codec = 44;
        return reduce(session, tensor.get(), RUEDA_SUM, &options, handle);
      },
      "44");
}

TEST_CASE("a timeout that is no number from 0 is refused") {
  for (const double timeout : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    each_rank_is_refused(
        [timeout](rueda_session* session, rueda_handle* handle) {
          std::vector<float> values(4);
          const CTensor tensor(values, RUEDA_F32);
          rueda_op_options options = named("w");
          options.timeout_seconds = timeout;
          return reduce(session, tensor.get(), RUEDA_SUM, &options, handle);
        },
        "timeout_seconds is");
  }
}

TEST_CASE("a process set that does not exist is refused with its number") {
  each_rank_is_refused(
      [](rueda_session* session, rueda_handle* handle) {
        std::vector<float> values(4);
        const CTensor tensor(values, RUEDA_F32);
        rueda_op_options options = named("w");
        options.process_set = 31;
        return reduce(session, tensor.get(), RUEDA_SUM, &options, handle);
      },
      "31");
}

TEST_CASE("a root that is no rank of the job is refused with its number") {
  for (const int32_t root : {-1, 2, 500}) {
    each_rank_is_refused(
        [&](rueda_session* session, rueda_handle* handle) {
          std::vector<float> values(4);
          const CTensor tensor(values, RUEDA_F32);
          return rueda_broadcast_async(session, tensor.get(), tensor.get(), root, nullptr, handle);
        },
        std::to_string(root));
  }
}

TEST_CASE("a name of more than 1024 bytes is refused, one of 1024 is fine") {
  const std::string longest(1024, 'n');
  const std::string longer(1025, 'n');
  each_rank_is_refused(
      [&](rueda_session* session, rueda_handle* handle) {
        expect_usable(session, longest.c_str());
        std::vector<float> values(4);
        const CTensor tensor(values, RUEDA_F32);
        const rueda_op_options options = named(longer.c_str());
        return reduce(session, tensor.get(), RUEDA_SUM, &options, handle);
      },
      "1024");
}

TEST_CASE("more than 16 dimensions are refused, 16 are fine") {
  each_rank_is_refused(
      [](rueda_session* session, rueda_handle* handle) {
        std::vector<float> values(2);
        const CTensor most(values.data(), RUEDA_F32, std::vector<int64_t>(16, 1));
        expect_code(rueda_allreduce(session, most.get(), most.get(), RUEDA_SUM, nullptr), RUEDA_OK, "16 dimensions");
        const CTensor more(values.data(), RUEDA_F32, std::vector<int64_t>(17, 1));
        return reduce(session, more.get(), RUEDA_SUM, nullptr, handle);
      },
      "17");
}

TEST_CASE("a negative dimension is refused with its value") {
  each_rank_is_refused(
      [](rueda_session* session, rueda_handle* handle) {
        std::vector<float> values(4);
        const CTensor tensor(values.data(), RUEDA_F32, {2, -2});
        return reduce(session, tensor.get(), RUEDA_SUM, nullptr, handle);
      },
      "-2");
}

TEST_CASE("a shape whose elements overflow 64 bits is refused") {
  each_rank_is_refused(
      [](rueda_session* session, rueda_handle* handle) {
        std::vector<float> values(4);
        const int64_t huge = std::numeric_limits<int64_t>::max() / 2;
        const CTensor tensor(values.data(), RUEDA_F32, {huge, 4, huge});
        return reduce(session, tensor.get(), RUEDA_SUM, nullptr, handle);
      },
      "2^47");
}

TEST_CASE("elements at a null pointer are refused for an input, and for a broadcast's root") {
  each_rank_is_refused(
      [](rueda_session* session, rueda_handle* handle) {
        std::vector<float> values(4);
        const CTensor nowhere(nullptr, RUEDA_F32, {4});
        const CTensor output(values, RUEDA_F32);
        return rueda_allreduce_async(session, nowhere.get(), output.get(), RUEDA_SUM, nullptr, handle);
      },
      "data");
}

TEST_CASE("data that is not aligned to its element is refused") {
  each_rank_is_refused(
      [](rueda_session* session, rueda_handle* handle) {
        std::vector<double> values(4);
        const CTensor tensor(reinterpret_cast<char*>(values.data()) + 1, RUEDA_F64, {2});
        return reduce(session, tensor.get(), RUEDA_SUM, nullptr, handle);
      },
      "align");
}

TEST_CASE("opaque elements are refused where they have no size, another one than the output, or are to be reduced") {
  const auto refused = [](size_t in_bytes, size_t out_bytes, int32_t op, const std::string& words) {
    each_rank_is_refused(
        [&](rueda_session* session, rueda_handle* handle) {
          std::vector<uint8_t> values(64);
          std::vector<uint8_t> out(64);
          CTensor input(values.data(), RUEDA_OPAQUE, {2});
          CTensor output(out.data(), RUEDA_OPAQUE, {2});
          input->element_bytes = in_bytes;
          output->element_bytes = out_bytes;
          if (op < 0) return rueda_broadcast_async(session, input.get(), output.get(), 0, nullptr, handle);
          return rueda_allreduce_async(session, input.get(), output.get(), op, nullptr, handle);
        },
        words);
  };
  refused(0, 0, -1, "element_bytes is 0; an opaque element has 1 to 2^47 bytes");
  refused((size_t{1} << 47) + 1, 1, -1, "element_bytes is 140737488355329");
  refused(size_t{1} << 47, 1, -1, "exceeds the limit of 2^47 bytes");
  refused(8, 4, -1, "element_bytes is 4; the input has 8");
  for (const int32_t op : {RUEDA_SUM, RUEDA_MIN, RUEDA_BXOR}) {
    refused(8, 8, op, "opaque elements can be moved, not reduced");
  }
}

TEST_CASE("an output of another shape or dtype than its input is refused") {
  each_rank_is_refused(
      [](rueda_session* session, rueda_handle* handle) {
        std::vector<float> in(4);
        std::vector<float> out(3);
        return rueda_allreduce_async(session, CTensor(in, RUEDA_F32).get(), CTensor(out, RUEDA_F32).get(), RUEDA_SUM,
                                     nullptr, handle);
      },
      "[3]");
  each_rank_is_refused(
      [](rueda_session* session, rueda_handle* handle) {
        std::vector<float> in(4);
        std::vector<int32_t> out(4);
        return rueda_allreduce_async(session, CTensor(in, RUEDA_F32).get(), CTensor(out, RUEDA_I32).get(), RUEDA_SUM,
                                     nullptr, handle);
      },
      "i32");
}

TEST_CASE("an output that overlaps its input without being it is refused") {
  each_rank_is_refused(
      [](rueda_session* session, rueda_handle* handle) {
        std::vector<float> values(8);
        const CTensor in(values.data(), RUEDA_F32, {4});
        const CTensor out(values.data() + 1, RUEDA_F32, {4});
        return rueda_allreduce_async(session, in.get(), out.get(), RUEDA_SUM, nullptr, handle);
      },
      "overlap");
}

TEST_CASE("a device that no plug-in serves is refused with its number") {
  each_rank_is_refused(
      [](rueda_session* session, rueda_handle* handle) {
        std::vector<float> values(4);
        CTensor tensor(values, RUEDA_F32);
        tensor->device = 12;
        return reduce(session, tensor.get(), RUEDA_SUM, nullptr, handle);
      },
      "12");
}

TEST_CASE("a struct whose size was not set is refused") {
  each_rank_is_refused(
      [](rueda_session* session, rueda_handle* handle) {
        std::vector<float> values(4);
        CTensor tensor(values, RUEDA_F32);
        tensor->struct_size = 0;
        return reduce(session, tensor.get(), RUEDA_SUM, nullptr, handle);
      },
      "struct_size");
  each_rank_is_refused(
      [](rueda_session* session, rueda_handle* handle) {
        std::vector<float> values(4);
        const CTensor tensor(values, RUEDA_F32);
        rueda_op_options options{};
        return reduce(session, tensor.get(), RUEDA_SUM, &options, handle);
      },
      "struct_size");
}

TEST_CASE("null tensors and a null handle are refused") {
  each_rank_is_refused(
      [](rueda_session* session, rueda_handle* handle) {
        std::vector<float> values(4);
        const CTensor tensor(values, RUEDA_F32);
        expect_code(rueda_allreduce_async(session, tensor.get(), tensor.get(), RUEDA_SUM, nullptr, nullptr),
                    RUEDA_INVALID_ARGUMENT, "a null handle");
        expect_code(rueda_allreduce_async(session, tensor.get(), nullptr, RUEDA_SUM, nullptr, handle),
                    RUEDA_INVALID_ARGUMENT, "a null output");
        return rueda_allreduce_async(session, nullptr, tensor.get(), RUEDA_SUM, nullptr, handle);
      },
      "NULL");
}

TEST_CASE("tensors of a group lie as far apart as the caller's header says") {
  // A later header's tensor, and an earlier one's, which ended before `element_bytes`.
  struct Longer {
    rueda_tensor tensor;
    int64_t later;
  };
  struct Earlier {
    size_t struct_size;
    void* data;
    int32_t dtype, dimensions;
    const int64_t* shape;
    int32_t device, device_index;
  };
  run_ranks(2, [](rueda_session* session, int) {
    std::vector<float> values = {1, 2};
    const int64_t shape[] = {1};
    Longer longer[2] = {};
    Earlier earlier[2] = {};
    for (size_t i = 0; i < 2; ++i) {
      longer[i].tensor = {sizeof(Longer), &values[i], RUEDA_F32, 1, shape, RUEDA_DEVICE_CPU, 0, 0, nullptr};
      earlier[i] = {sizeof(Earlier), &values[i], RUEDA_F32, 1, shape, RUEDA_DEVICE_CPU, 0};
    }
    for (const rueda_tensor* tensors :
         {static_cast<const rueda_tensor*>(&longer[0].tensor), reinterpret_cast<const rueda_tensor*>(&earlier[0])}) {
      expect_code(rueda_grouped_allreduce(session, 2, tensors, tensors, nullptr, RUEDA_SUM, nullptr), RUEDA_OK,
                  "group");
    }
    expect(values[0] == 4 && values[1] == 8, "the group summed something else");
  });
}

TEST_CASE("tensors without elements are reduced and broadcast like others") {
  run_ranks(3, [](rueda_session* session, int) {
    const CTensor flat(nullptr, RUEDA_F32, {0});
    const CTensor deep(nullptr, RUEDA_BF16, {3, 0, 5});
    expect_code(rueda_allreduce(session, flat.get(), flat.get(), RUEDA_AVERAGE, nullptr), RUEDA_OK, "shape [0]");
    expect_code(rueda_allreduce(session, deep.get(), deep.get(), RUEDA_MAX, nullptr), RUEDA_OK, "shape [3, 0, 5]");
    expect_code(rueda_broadcast(session, flat.get(), flat.get(), 2, nullptr), RUEDA_OK, "broadcast of shape [0]");
    expect_code(rueda_grouped_allreduce(session, 0, nullptr, nullptr, nullptr, RUEDA_SUM, nullptr), RUEDA_OK,
                "a group without members");
    expect_usable(session, "after empty tensors");
  });
}

TEST_CASE("a tensor without dimensions has one element") {
  run_ranks(2, [](rueda_session* session, int rank) {
    double value = rank + 1;
    CTensor tensor(&value, RUEDA_F64, {});
    tensor->shape = nullptr;
    expect_code(rueda_allreduce(session, tensor.get(), tensor.get(), RUEDA_SUM, nullptr), RUEDA_OK, "a scalar");
    expect(value == 3, "1 + 2 is not " + std::to_string(value));
  });
}

}  // namespace rueda::test
