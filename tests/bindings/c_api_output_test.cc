// Outputs whose memory the caller did not give: the library's own, and the caller's allocator.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "tests/bindings/operations.h"

namespace rueda::test {
namespace {

struct Memory {
  std::atomic<int> calls = 0;
  std::atomic<size_t> bytes = 0;
  void* given = nullptr;
};

rueda_handle start(rueda_session* session, std::vector<float>& in, const rueda_op_options& options) {
  const CTensor input(in, RUEDA_F32);
  const CTensor nowhere(nullptr, RUEDA_F32, {static_cast<int64_t>(in.size())});
  rueda_handle handle = 0;
  expect_code(rueda_allreduce_async(session, input.get(), nowhere.get(), RUEDA_SUM, &options, &handle), RUEDA_OK,
              "enqueue");
  return handle;
}

rueda_tensor output_of(rueda_handle handle) {
  rueda_tensor output{};
  output.struct_size = sizeof output;
  expect_code(rueda_output(handle, 0, &output), RUEDA_OK, "output");
  return output;
}

void expect_all(const rueda_tensor& output, int64_t count, float wanted) {
  expect(output.dtype == RUEDA_F32 && output.dimensions == 1 && output.shape[0] == count,
         "the output's dtype or shape");
  expect(reinterpret_cast<uintptr_t>(output.data) % 64 == 0, "the output is not aligned to 64");
  for (int64_t i = 0; i < count; ++i)
    expect(static_cast<const float*>(output.data)[i] == wanted, "element " + std::to_string(i));
}

}  // namespace

TEST_CASE("an output without memory gets the library's until the handle is released") {
  run_ranks(2, [](rueda_session* session, int rank) {
    for (const size_t count : {1U, 1000U, 300000U}) {
      std::vector<float> in(count, static_cast<float>(rank + 1));
      const rueda_handle handle = start(session, in, named("w"));
      expect_code(rueda_wait(handle, -1), RUEDA_OK, "wait");
      expect_all(output_of(handle), static_cast<int64_t>(count), 3);
      expect(in[0] == static_cast<float>(rank + 1), "the input was written");
      expect_code(rueda_release(handle), RUEDA_OK, "release");
    }
  });
}

TEST_CASE("an output of given memory is that memory") {
  run_ranks(2, [](rueda_session* session, int) {
    std::vector<float> values = {1};
    const rueda_handle handle = start_sum(session, values, "w");
    expect_code(rueda_wait(handle, -1), RUEDA_OK, "wait");
    expect(output_of(handle).data == values.data(), "the output is elsewhere");
    rueda_tensor second{};
    second.struct_size = sizeof second;
    expect_code(rueda_output(handle, 1, &second), RUEDA_INVALID_ARGUMENT, "member 1 of a single tensor");
    expect_code(rueda_release(handle), RUEDA_OK, "release");
  });
}

TEST_CASE("the output of an operation in flight is refused") {
  run_ranks(2, [](rueda_session* session, int rank) {
    std::vector<float> values = {1};
    if (rank == 1) expect_usable(session, "go on");
    const rueda_handle handle = start_sum(session, values, "w");
    if (rank == 0) {
      rueda_tensor output{};
      output.struct_size = sizeof output;
      expect_code(rueda_output(handle, 0, &output), RUEDA_INVALID_ARGUMENT, "output in flight");
      expect_usable(session, "go on");
    }
    expect(finish(handle).code == RUEDA_OK, "the sum failed");
  });
}

TEST_CASE("allocate is called once, with the bytes of the output, and its memory is the output") {
  run_ranks(2, [](rueda_session* session, int rank) {
    Memory memory;
    rueda_op_options options = named("w");
    options.allocate_context = &memory;
    options.allocate = [](void* context, size_t bytes, int32_t, int32_t, void*) -> void* {
      auto& mine = *static_cast<Memory*>(context);
      ++mine.calls;
      mine.bytes = bytes;
      mine.given = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
      return mine.given;
    };
    std::vector<float> in(777, static_cast<float>(rank + 1));
    const rueda_handle handle = start(session, in, options);
    expect_code(rueda_wait(handle, -1), RUEDA_OK, "wait");
    expect(memory.calls == 1 && memory.bytes == 777 * sizeof(float), "calls or bytes");
    expect(output_of(handle).data == memory.given, "the output is elsewhere");
    expect_all(output_of(handle), 777, 3);
    expect_code(rueda_release(handle), RUEDA_OK, "release");
    std::free(memory.given);
  });
}

TEST_CASE("a rank whose allocate returns nothing, or throws, fails alone") {
  run_ranks(3, [](rueda_session* session, int rank) {
    for (int step = 0; step < 3; ++step) {
      rueda_op_options options = named("w");
      if (rank == 1 && step == 1) {
        options.allocate = [](void*, size_t, int32_t, int32_t, void*) -> void* { throw std::bad_alloc(); };
      } else if (rank == 1) {
        options.allocate = [](void*, size_t, int32_t, int32_t, void*) -> void* { return nullptr; };
      }
      std::vector<float> in(5000, static_cast<float>(rank));
      const rueda_handle handle = start(session, in, options);
      const int32_t code = rueda_wait(handle, -1);
      expect_code(code, rank == 1 ? RUEDA_SYSTEM : RUEDA_OK, "wait of rank " + std::to_string(rank));
      if (rank == 1) {
        expect(std::string(rueda_handle_error(handle)).find("20000") != std::string::npos, rueda_handle_error(handle));
      } else {
        expect_all(output_of(handle), 5000, 3);
      }
      expect_code(rueda_release(handle), RUEDA_OK, "release");
    }
    expect_usable(session, "afterwards");
  });
}

TEST_CASE("a group may have outputs of both kinds") {
  run_ranks(2, [](rueda_session* session, int rank) {
    std::vector<float> a(10, static_cast<float>(rank + 1));
    std::vector<float> b(20, static_cast<float>(rank + 2));
    const CTensor first(a, RUEDA_F32);
    const CTensor second(b, RUEDA_F32);
    const CTensor nowhere(nullptr, RUEDA_F32, {20});
    const rueda_tensor inputs[] = {*first.get(), *second.get()};
    const rueda_tensor outputs[] = {*first.get(), *nowhere.get()};
    const rueda_op_options options = named("g");
    rueda_handle handle = 0;
    expect_code(rueda_grouped_allreduce_async(session, 2, inputs, outputs, nullptr, RUEDA_SUM, &options, &handle),
                RUEDA_OK, "enqueue");
    expect_code(rueda_wait(handle, -1), RUEDA_OK, "wait");
    rueda_tensor output{};
    output.struct_size = sizeof output;
    expect_code(rueda_output(handle, 1, &output), RUEDA_OK, "output");
    expect_all(output, 20, 5);
    expect(a[9] == 3, "the member in place");
    expect_code(rueda_release(handle), RUEDA_OK, "release");
  });
}

}  // namespace rueda::test
