// Operations on GPUs, which stand-ins are, give what they give on the host.
#include <catch2/catch.hpp>

#include "rueda.hpp"
#include "tests/bindings/submission.h"
#include "tests/ops/cuda/gpu.h"

namespace rueda::test {
namespace {

constexpr size_t kMostBytes = 16 * 40;  // 33 elements of complex128, and one behind them

/// An element's bytes: small whole numbers of its type, so that sums are exact. Opaque ones have 3 bytes.
void fill(const Submission& submission, int rank, std::byte* memory) {
  const auto dtype = static_cast<core::Dtype>(submission.dtype);
  const core::Dtype part = core::part_of(dtype);
  int64_t count = submission.shape[0];
  if (dtype == core::Dtype::kOpaque) count *= static_cast<int64_t>(submission.element_bytes);
  if (part != dtype) count *= 2;
  for (int64_t i = 0; i < count; ++i) {
    const int value =
        dtype == core::Dtype::kBool ? static_cast<int>((i + rank) % 2) : static_cast<int>(1 + (i + rank) % 3);
    std::byte* const at = memory + static_cast<size_t>(i) * core::size_of(part);
    const auto put = [at](auto number) { std::memcpy(at, &number, sizeof number); };
    switch (part) {
      case core::Dtype::kF32: put(static_cast<float>(value)); break;
      case core::Dtype::kF64: put(static_cast<double>(value)); break;
      case core::Dtype::kF16: put(static_cast<uint16_t>(value == 1 ? 0x3c00 : value == 2 ? 0x4000 : 0x4200)); break;
      case core::Dtype::kBf16: put(static_cast<uint16_t>(value == 1 ? 0x3f80 : value == 2 ? 0x4000 : 0x4040)); break;
      default: std::memset(at, 0, core::size_of(part)); *at = static_cast<std::byte>(value);
    }
  }
}

/// What a submission ends with: its code, and the bytes of its output.
struct Outcome {
  int32_t code;
  std::vector<std::byte> bytes;
};

std::vector<std::byte> output_of(rueda_handle handle) {
  rueda_tensor tensor{};
  tensor.struct_size = sizeof tensor;
  if (rueda_output(handle, 0, &tensor) != RUEDA_OK || tensor.data == nullptr) return {};
  size_t bytes =
      tensor.element_bytes != 0 ? tensor.element_bytes : core::size_of(static_cast<core::Dtype>(tensor.dtype));
  for (int32_t d = 0; d < tensor.dimensions; ++d) bytes *= static_cast<size_t>(tensor.shape[d]);
  const auto* data = static_cast<const std::byte*>(gpu().in_kernel(tensor.data));
  return {data, data + bytes};
}

Outcome run_on(rueda_session* session, const Submission& submission, int rank, const char* name, void* memory,
               CUstream stream) {
  fill(submission, rank, static_cast<std::byte*>(gpu().in_kernel(memory)));
  rueda_handle handle = 0;
  const int32_t entered = enqueue(session, submission, memory, on_stream(name, stream), &handle);
  if (entered != RUEDA_OK) return {entered, {}};
  Outcome outcome{rueda_wait(handle, -1.0), {}};
  outcome.bytes = output_of(handle);
  expect_code(rueda_release(handle), RUEDA_OK, "release");
  return outcome;
}

TEST_CASE("every kind of operation of every type gives on a GPU what it gives on the host") {
  gpu();
  const auto kind = GENERATE(from_range(kAllKinds.begin(), kAllKinds.end()));
  if (kind == Submission::Kind::kBarrier) return;
  run_ranks(2, [kind](rueda_session* session, int rank) {
    const GpuStream stream(0);
    std::vector<std::byte> on_host(kMostBytes + 16);
    const GpuMemory<std::byte> on_gpu(kMostBytes + 16);
    for (int32_t dtype = RUEDA_U8; dtype <= RUEDA_OPAQUE; ++dtype) {
      for (const int64_t rows : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{7}, int64_t{33}}) {
        Submission submission{.kind = kind, .dtype = dtype, .shape = {rows}};
        if (dtype == RUEDA_OPAQUE) submission.element_bytes = 3;
        if (!submission.concerns(rank)) continue;
        const size_t shift =
            core::size_of(core::part_of(static_cast<core::Dtype>(dtype)));  // an odd address of its type
        const Outcome expected = run_on(session, submission, rank, "host", on_host.data() + shift, nullptr);
        submission.device = RUEDA_DEVICE_CUDA;
        const Outcome got =
            run_on(session, submission, rank, "gpu", reinterpret_cast<std::byte*>(on_gpu.data()) + shift, stream.get());
        const std::string what = std::string(core::name_of(kind)) + " of " + std::to_string(rows) + " " +
                                 core::name_of(static_cast<core::Dtype>(dtype));
        expect(got.code == expected.code, what + " ended with " + rueda_error_name(got.code) +
                                              " and on the host with " + rueda_error_name(expected.code) + ": " +
                                              rueda_last_error());
        expect(got.bytes == expected.bytes, what + " gave other bytes than on the host");
      }
    }
  });
}

TEST_CASE("a sum in several pieces and of several tensors is right on every rank, each on its GPU") {
  gpu();
  run_ranks(2, [](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    std::vector<std::unique_ptr<GpuMemory<float>>> memory;
    std::vector<rueda_handle> handles;
    const std::vector<int64_t> counts = {1, 1'500'000, 0, 33, 2'000'003, 5};
    for (size_t i = 0; i < counts.size(); ++i) {
      memory.push_back(std::make_unique<GpuMemory<float>>(numbers(rank, static_cast<size_t>(counts[i]))));
      handles.push_back(
          sum_on_gpu(session, *memory[i], counts[i], ("t" + std::to_string(i)).c_str(), stream.get(), rank));
    }
    for (const rueda_handle handle : handles) expect_done(handle, "sum");
    for (const auto& each : memory) expect_sums(each->values(), 2, "on the GPU");
  });
}

TEST_CASE("a GPU's tensors are averaged with a codec, and added adaptively, as the host's are") {
  gpu();
  run_ranks(2, [](rueda_session* session, int rank) {
    const GpuStream stream(0);
    const GpuMemory<float> memory(numbers(rank, 1000));
    const GpuTensor tensor(memory.data(), 1000, 0);
    std::vector<float> values = numbers(rank, 1000);
    const CTensor host(values, RUEDA_F32);
    for (const int32_t op : {RUEDA_AVERAGE, RUEDA_ADASUM, RUEDA_MIN}) {
      rueda_op_options options = on_stream("by op", stream.get());
      if (op == RUEDA_AVERAGE) options.codec = RUEDA_CODEC_FP16;
      expect_code(rueda_allreduce(session, tensor.get(), tensor.get(), op, &options), RUEDA_OK, "on the GPU");
      expect_code(rueda_allreduce(session, host.get(), host.get(), op, &options), RUEDA_OK, "on the host");
      expect(memory.values() == values, "operator " + std::to_string(op) + " gives other values on the GPU");
    }
  });
}

TEST_CASE("a rank that has joined takes part in the others' reductions on GPUs with neutral elements") {
  gpu();
  run_ranks(2, [](rueda_session* session, int rank) {
    if (rank == 1) return expect_code(rueda_join(session, nullptr, nullptr), RUEDA_OK, "join");
    const GpuStream stream(0);
    for (const int64_t count : {int64_t{0}, int64_t{10}, int64_t{3'000'000}}) {
      const GpuMemory<float> memory(numbers(0, static_cast<size_t>(count)));
      const GpuTensor tensor(memory.data(), count, 0);
      const rueda_op_options options = on_stream("alone", stream.get());
      for (const int32_t op : {RUEDA_SUM, RUEDA_MAX}) {
        expect_code(rueda_allreduce(session, tensor.get(), tensor.get(), op, &options), RUEDA_OK, "all-reduce");
      }
      expect(memory.values() == numbers(0, static_cast<size_t>(count)), "the joined rank brought something");
      if (count == 0) continue;
      const GpuMemory<float> rows(static_cast<size_t>((count + 1) / 2));
      const GpuTensor to(rows.data(), (count + 1) / 2, 0);
      expect_code(rueda_reducescatter(session, tensor.get(), to.get(), RUEDA_SUM, &options), RUEDA_OK, "rows");
      expect(rows.values() == numbers(0, static_cast<size_t>((count + 1) / 2)), "the joined rank changed the rows");
    }
    expect_code(rueda_join(session, nullptr, nullptr), RUEDA_OK, "join");
  });
}

TEST_CASE("a C++ program waits by stream and finds the output that the library has made") {
  gpu();
  run_ranks(2, [](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    const GpuMemory<float> memory(numbers(rank, 1000));
    const GpuTensor input(memory.data(), 1000, rank);
    const GpuTensor none(nullptr, 1000, rank);
    const rueda_op_options options = on_stream("cpp", stream.get());
    rueda_handle id = 0;
    expect_code(rueda_allreduce_async(session, input.get(), none.get(), RUEDA_SUM, &options, &id), RUEDA_OK, "enqueue");
    const rueda::Handle handle(id);
    handle.wait_stream(stream.get());
    const rueda::Tensor output = handle.output();
    expect(output.device().kind == RUEDA_DEVICE_CUDA && output.device().index == rank, "the output is elsewhere");
    std::vector<float> seen(1000);
    gpu().launch(stream.get(), [&] {
      const auto* sums = static_cast<const float*>(gpu().in_kernel(output.data()));
      std::copy(sums, sums + 1000, seen.begin());
    });
    gpu().drain(stream.get());
    handle.wait();
    expect_sums(seen, 2, "seen by the stream");
  });
}

TEST_CASE("CPU here and GPU there is a mismatch that names the ranks") {
  gpu();
  run_ranks(2, [](rueda_session* session, int rank) {
    const GpuStream stream(0);
    const GpuMemory<float> memory(numbers(rank, 4));
    std::vector<float> values(4);
    const GpuTensor on_gpu(memory.data(), 4, 0);
    const CTensor on_host(values, RUEDA_F32);
    const rueda_tensor* const tensor = rank == 1 ? on_gpu.get() : on_host.get();
    const rueda_op_options options = on_stream("mixed", rank == 1 ? stream.get() : nullptr);
    expect_code(rueda_allreduce(session, tensor, tensor, RUEDA_SUM, &options), RUEDA_MISMATCH, "mixed");
    const std::string sentence = rueda_last_error();
    expect(sentence.find("device differs: rank 0") != std::string::npos, sentence);
  });
}

}  // namespace
}  // namespace rueda::test
