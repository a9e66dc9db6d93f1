// The kernels that gather the tensors of a batch into one buffer and scatter the sums back.
//
//   gather    tensors t0 t1 t2 ... ─ scale, cast or widen ─▶ buffer    one launch, whatever the number of tensors
//   scatter   buffer ─ divide, scale, round, cast ─▶ tensors           the same table, read the other way
//
// Blocks, or warps if tiles are short, take tiles in turn, find a tile's piece by a binary search, and move 16 bytes of the wider type at once as soon
// as both sides are aligned alike. The arithmetic is that of the CPU's passes, from the same headers, so both give the
// same bits. The tests compile this file as C++ too and run it on the host.
#include "ops/cuda/pack_tiles.h"

#include <cstring>

#include "compression/held_integer.h"
#include "ops/cuda/elements.cuh"

namespace rueda::cuda {
namespace {

using core::Dtype;

/// The sum of integers of 64 bits, which 64 bits do not hold: `high` * 2^32 + `low`.
struct WidePair {
  int64_t low;
  int64_t high;
};

/// A thread asks for so many runs before it uses the first, so that the memory always has something to do.
constexpr int kRunsInFlight = 4;

/// The threads that work on one tile, and which of them this one is.
struct Lane {
  int thread;
  int threads;
};

/// to[i] = convert(from[i]) for the elements of a tile, by all its threads. The addresses may be any.
template <class From, class To, class Convert>
__device__ void convert_tile(const From* from, To* to, int count, Lane lane, Convert convert) {
  constexpr int kAtOnce = 16 / static_cast<int>(sizeof(From) > sizeof(To) ? sizeof(From) : sizeof(To));
  using In = Run<From, kAtOnce>;
  using Out = Run<To, kAtOnce>;
  const auto [thread, threads] = lane;
  const int before_in = elements_before(reinterpret_cast<uintptr_t>(from), sizeof(From), sizeof(In));
  const int before_out = elements_before(reinterpret_cast<uintptr_t>(to), sizeof(To), sizeof(Out));
  if (before_in < 0 || before_out < 0) {  // not even aligned to its elements
#pragma unroll 1
    for (int i = thread; i < count; i += threads) {
      From in;
      memcpy(&in, reinterpret_cast<const std::byte*>(from) + static_cast<size_t>(i) * sizeof(From), sizeof in);
      const To out = convert(in);
      memcpy(reinterpret_cast<std::byte*>(to) + static_cast<size_t>(i) * sizeof(To), &out, sizeof out);
    }
    return;
  }
  const int head = before_in == before_out && before_in < count ? before_in : count;
#pragma unroll 1
  for (int i = thread; i < head; i += threads) to[i] = convert(from[i]);
  const int runs = (count - head) / kAtOnce;
#pragma unroll 1
  for (int begin = thread; begin < runs; begin += kRunsInFlight * threads) {
    In in[kRunsInFlight];
#pragma unroll
    for (int r = 0; r < kRunsInFlight; ++r) {
      if (begin + r * threads < runs) in[r] = reinterpret_cast<const In*>(from + head)[begin + r * threads];
    }
#pragma unroll
    for (int r = 0; r < kRunsInFlight; ++r) {
      if (begin + r * threads >= runs) break;
      Out out;
      for (int k = 0; k < kAtOnce; ++k) out.element[k] = convert(in[r].element[k]);
      reinterpret_cast<Out*>(to + head)[begin + r * threads] = out;
    }
  }
#pragma unroll 1
  for (int i = head + runs * kAtOnce + thread; i < count; i += threads) to[i] = convert(from[i]);
}

template <class To>
__device__ void fill_tile(To* to, int count, Lane lane, To value) {
#pragma unroll 1
  for (int i = lane.thread; i < count; i += lane.threads) to[i] = value;
}

template <class Wire>
__device__ Wire neutral_of(const PackTask& task) {
  Wire value{};
  memcpy(&value, &task.neutral, sizeof value < sizeof task.neutral ? sizeof value : sizeof task.neutral);
  return value;
}

/// All tiles of this thread. Without a buffer `scatter` changes tensors in place.
template <class Tensor, class Wire, class Gather, class Scatter>
__device__ void run_tiles(const PackParameters& parameters, Gather gather, Scatter scatter) {
  const PackTask& task = parameters.task;
  const PackPiece* const pieces = task.table != nullptr ? task.table : parameters.held;
  const unsigned lanes = task.lanes < blockDim.x ? task.lanes : blockDim.x;
  const Lane lane{static_cast<int>(threadIdx.x % lanes), static_cast<int>(lanes)};
  const uint32_t at_once = blockDim.x / lanes;  // tiles of a block
  const uint32_t first = blockIdx.x * at_once + threadIdx.x / lanes;
#pragma unroll 1
  for (uint32_t tile = first; tile < task.tiles; tile += gridDim.x * at_once) {
    const PackPiece& piece = pieces[piece_of(pieces, task.pieces, tile, task.tiles)];
    const int64_t begin = tile_begin(piece, tile);
    const int count = tile_length(piece, tile);
    std::byte* const base = task.buffer == nullptr ? piece.out : task.buffer + piece.at;
    Wire* const wire = reinterpret_cast<Wire*>(base) + begin;
    if (task.way == PackWay::kScatter) {
      if (piece.out != nullptr) convert_tile(wire, reinterpret_cast<Tensor*>(piece.out) + begin, count, lane, scatter);
    } else if (piece.in == nullptr) {
      fill_tile(wire, count, lane, neutral_of<Wire>(task));
    } else {
      convert_tile(reinterpret_cast<const Tensor*>(piece.in) + begin, wire, count, lane, gather);
    }
  }
}

template <class T>
__device__ void run_bits(const PackParameters& parameters) {
  const auto same = [](T value) { return value; };
  run_tiles<T, T>(parameters, same, same);
}

template <class Acc>
__device__ Acc finished(Acc value, const PackTask& task) {
  if (task.divisor != 1) value = value / static_cast<Acc>(static_cast<double>(task.divisor));
  if (task.factor != 1.0) value = value * static_cast<Acc>(task.factor);
  return value;
}

template <class Tensor, class Wire>
__device__ void run_floats(const PackParameters& parameters) {
  const PackTask& task = parameters.task;
  const auto gather = [&task](Tensor value) {
    auto wide = widened(value);
    if (task.factor != 1.0) wide = wide * static_cast<decltype(wide)>(task.factor);
    return rounded<Wire>(wide);
  };
  const auto scatter = [&task](Wire value) {
    if (task.divisor == 1 && task.factor == 1.0) return rounded<Tensor>(widened(value));  // nothing to round twice
    const Wire result = rounded<Wire>(finished(widened(value), task));
    if constexpr (std::is_same_v<Tensor, Wire>) return result;
    else return rounded<Tensor>(widened(result));
  };
  run_tiles<Tensor, Wire>(parameters, gather, scatter);
}

template <class Tensor>
__device__ void run_floats_of(const PackParameters& parameters) {
  switch (parameters.task.wire) {
    case PackWire::kF16: return run_floats<Tensor, F16>(parameters);
    case PackWire::kBf16: return run_floats<Tensor, Bf16>(parameters);
    default: return run_floats<Tensor, Tensor>(parameters);
  }
}

template <class T>
__device__ T scaled(T value, double factor) {
  return factor == 1.0 ? value : core::held_integer<T>(static_cast<double>(value) * factor);
}

/// The exact sum divided, with what is left cut off; without a scale it wraps to the type.
template <class T, class Exact>
__device__ T finished_integer(Exact sum, const PackTask& task) {
  if (task.divisor != 1) sum = sum / static_cast<Exact>(task.divisor);
  if (task.factor == 1.0) return static_cast<T>(sum);
  return core::held_integer<T>(static_cast<double>(sum) * task.factor);
}

template <class T>
__device__ void run_wide_integers(const PackParameters& parameters) {
  const PackTask& task = parameters.task;
  if constexpr (sizeof(T) == 8) {
    __extension__ typedef __int128 Exact;
    const auto gather = [&task](T value) {
      const T in = scaled(value, task.factor);
      return WidePair{static_cast<int64_t>(in & T{0xffffffff}), static_cast<int64_t>(in >> 32)};
    };
    const auto scatter = [&task](WidePair sum) {
      const Exact exact = static_cast<Exact>(sum.high) * (int64_t{1} << 32) + sum.low;
      return finished_integer<T>(exact, task);
    };
    run_tiles<T, WidePair>(parameters, gather, scatter);
  } else {
    const auto gather = [&task](T value) { return static_cast<int64_t>(scaled(value, task.factor)); };
    const auto scatter = [&task](int64_t sum) { return finished_integer<T>(sum, task); };
    run_tiles<T, int64_t>(parameters, gather, scatter);
  }
}

template <class T>
__device__ void run_integers(const PackParameters& parameters) {
  const PackTask& task = parameters.task;
  if (task.wire == PackWire::kWide) return run_wide_integers<T>(parameters);
  const auto both = [&task](T value) { return scaled(value, task.factor); };
  run_tiles<T, T>(parameters, both, both);
}

/// Any byte but 0 is true, and only 1 leaves.
__device__ void run_bools(const PackParameters& parameters) {
  const auto both = [](uint8_t value) { return static_cast<uint8_t>(value != 0 ? 1 : 0); };
  run_tiles<uint8_t, uint8_t>(parameters, both, both);
}

}  // namespace
}  // namespace rueda::cuda

extern "C" {

__global__ void __launch_bounds__(rueda::cuda::kPackThreads, 2)
    rueda_pack_bits(const __grid_constant__ rueda::cuda::PackParameters parameters) {
  switch (parameters.task.element_bytes) {
    case 1: return rueda::cuda::run_bits<uint8_t>(parameters);
    case 2: return rueda::cuda::run_bits<uint16_t>(parameters);
    case 4: return rueda::cuda::run_bits<uint32_t>(parameters);
    default: return rueda::cuda::run_bits<uint64_t>(parameters);
  }
}

__global__ void __launch_bounds__(rueda::cuda::kPackThreads, 2)
    rueda_pack_floats(const __grid_constant__ rueda::cuda::PackParameters parameters) {
  switch (parameters.task.dtype) {
    case rueda::core::Dtype::kF16: return rueda::cuda::run_floats<rueda::core::F16, rueda::core::F16>(parameters);
    case rueda::core::Dtype::kBf16: return rueda::cuda::run_floats<rueda::core::Bf16, rueda::core::Bf16>(parameters);
    case rueda::core::Dtype::kF32: return rueda::cuda::run_floats_of<float>(parameters);
    default: return rueda::cuda::run_floats_of<double>(parameters);
  }
}

__global__ void __launch_bounds__(rueda::cuda::kPackThreads, 2)
    rueda_pack_integers(const __grid_constant__ rueda::cuda::PackParameters parameters) {
  switch (parameters.task.dtype) {
    case rueda::core::Dtype::kU8: return rueda::cuda::run_integers<uint8_t>(parameters);
    case rueda::core::Dtype::kI8: return rueda::cuda::run_integers<int8_t>(parameters);
    case rueda::core::Dtype::kU16: return rueda::cuda::run_integers<uint16_t>(parameters);
    case rueda::core::Dtype::kI16: return rueda::cuda::run_integers<int16_t>(parameters);
    case rueda::core::Dtype::kU32: return rueda::cuda::run_integers<uint32_t>(parameters);
    case rueda::core::Dtype::kI32: return rueda::cuda::run_integers<int32_t>(parameters);
    case rueda::core::Dtype::kU64: return rueda::cuda::run_integers<uint64_t>(parameters);
    case rueda::core::Dtype::kI64: return rueda::cuda::run_integers<int64_t>(parameters);
    default: return rueda::cuda::run_bools(parameters);
  }
}

}  // extern "C"
