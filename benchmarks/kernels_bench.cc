// The kernels alone, on one thread: every set, chunks as the shared-memory algorithms use them. Bytes per second count
// every buffer once, read or written. `--benchmark_filter=f32` picks by name; --help has the rest.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compression/cast.h"
#include "ops/kernels/reduce.h"

namespace rueda::core {
namespace {

struct FreeBytes {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
using Buffer = std::unique_ptr<std::byte[], FreeBytes>;

// At a page and touched, as the slots of shared memory are.
Buffer zeroed(size_t bytes) {
  constexpr size_t kPage = 4096;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage));
  if (memory == nullptr) std::abort();
  std::memset(memory, 0, bytes);
  return Buffer(memory);
}

// One call of a kernel a step, on chunks of 256 KiB as lanes have them: buffers stay in the caches, and the time is the
// kernel's more than memory's.
void run_reduce(benchmark::State& state, Isa isa, ReduceTask task, StoreHint hint) {
  const auto inputs = static_cast<size_t>(state.range(0));
  const auto bytes = static_cast<size_t>(state.range(1));
  std::vector<Buffer> buffers;
  std::vector<const std::byte*> sources;
  for (size_t k = 0; k < inputs; ++k) {
    buffers.push_back(zeroed(bytes));
    sources.push_back(buffers.back().get());
  }
  const Buffer out = zeroed(bytes);
  task.divisor = state.range(0);  // the number of inputs: 3 divides, powers of two multiply
  const auto count = static_cast<int64_t>(bytes / size_of(task.dtype));
  for (auto step : state) {
    (void)step;
    reduce(kernels(isa), task, sources, out.get(), hint, nullptr, count);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>((inputs + 1) * bytes));
}

void run_cast(benchmark::State& state, Isa isa, const CastTask& task) {
  const auto count = state.range(0);
  const size_t in_bytes = static_cast<size_t>(count) * size_of(task.from);
  const size_t out_bytes = static_cast<size_t>(count) * size_of(task.to);
  const Buffer in = zeroed(in_bytes);
  const Buffer out = zeroed(out_bytes);
  for (auto step : state) {
    (void)step;
    cast(casts(isa), task, in.get(), out.get(), count);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(in_bytes + out_bytes));
}

std::string suffix(StoreHint hint) { return hint == StoreHint::kPlain ? "" : "/past_cache"; }

// Types with a kernel of their own kind: exact floats, 16-bit floats through fp32, integers with an exact average.
void add_reductions(Isa isa, StoreHint hint) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF64, Dtype::kF16, Dtype::kBf16, Dtype::kI32}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin}) {
      ReduceTask task;
      task.dtype = dtype;
      task.op = op;
      const std::string name = std::string(name_of(isa)) + "/" + name_of(dtype) + "/" + name_of(op) + suffix(hint);
      benchmark::RegisterBenchmark(name.c_str(), run_reduce, isa, task, hint)
          ->ArgNames({"inputs", "bytes"})
          ->ArgsProduct({{2, 3, 4, 8}, {256 << 10}});
    }
  }
}

// The passes of codecs, with and without a prescale. A factor of 1 between equal types is a copy.
void add_casts(Isa isa, StoreHint hint) {
  const std::vector<std::pair<Dtype, Dtype>> pairs{{Dtype::kF32, Dtype::kF32},
                                                   {Dtype::kF32, Dtype::kF16},
                                                   {Dtype::kF32, Dtype::kBf16},
                                                   {Dtype::kF16, Dtype::kF32},
                                                   {Dtype::kF64, Dtype::kF16}};
  for (const auto& [from, to] : pairs) {
    for (const double factor : {1.0, 0.5}) {
      const std::string scaled = factor == 1.0 ? "" : "/scaled";
      const std::string name =
          std::string(name_of(isa)) + "/" + name_of(from) + "_to_" + name_of(to) + scaled + suffix(hint);
      benchmark::RegisterBenchmark(name.c_str(), run_cast, isa, CastTask{from, to, factor, hint})
          ->ArgNames({"count"})
          ->Arg(64 << 10);
    }
  }
}

}  // namespace
}  // namespace rueda::core

int main(int argc, char** argv) {
  using namespace rueda::core;
  // Sets that this processor cannot run are left out.
  for (const Isa isa : available_isas()) {
    for (const StoreHint hint : {StoreHint::kPlain, StoreHint::kNonTemporal}) {
      add_reductions(isa, hint);
      add_casts(isa, hint);
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
