#pragma once
#include <cstddef>
#include <cstdint>

#include "runtime/base/dtype.h"

/// What the kernels in pack.cu and the code that launches them share: plain structs, and arithmetic that runs on both
/// sides. Work is dealt to blocks in tiles, so that a long tensor and many short ones keep all of a GPU busy:
///
///   tensors   |  t0  |  t0  | t0 |t1|t2|     t3     |
///   tiles        0      1     2   3  4    5     6          block b works on tiles b, b + blocks, ...
///
/// If tiles are short on average, a warp takes one instead of a block: most threads of a block would find nothing to
/// do.
namespace rueda::cuda {

/// Elements of a tile; the last one of a piece may have fewer.
inline constexpr int64_t kTileElements = 16 << 10;
inline constexpr unsigned kPackThreads = 512;  ///< of a block with a tile for all of them
inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kWarpedThreads = 128;  ///< of a block with a tile for each warp
/// Tiles with fewer elements on average are for a warp each.
inline constexpr int64_t kWarpedElements = 1 << 10;
/// Offsets of pieces in a buffer are multiples of so many bytes: what a GPU reads and writes at once.
inline constexpr int64_t kPackAlignment = 16;
/// So many pieces go with the parameters of a launch, for which every GPU has room of 4 KiB.
inline constexpr uint32_t kHeldPieces = 96;

/// A run of elements of one tensor, and where it lies in the buffer.
struct PackPiece {
  const std::byte* in;  ///< read when packing; null: the neutral element takes its place
  std::byte* out;       ///< written when unpacking; null: nobody wants it
  int64_t count;        ///< elements
  int64_t at;           ///< bytes from the beginning of the buffer
  uint32_t first_tile;  ///< tiles of the pieces before this one
  uint32_t unused;
};
static_assert(sizeof(PackPiece) == 40);

enum class PackWay : uint32_t {
  kGather,   ///< from the tensors to the buffer
  kScatter,  ///< from the buffer to the tensors; without a buffer each tensor is changed where it lies
};

/// What an element is in the buffer.
enum class PackWire : uint32_t {
  kSame,  ///< as in the tensor
  kF16,
  kBf16,
  kWide,  ///< an integer's exact sum: i64, and two of them for 64 bits: the low 32 bits, and the rest
};

/// What a kernel does with the elements of a table.
///
/// Gather: element * factor, then as `wire` says. Scatter: in the accumulator of the wire's type divided by `divisor`,
/// then multiplied by `factor`, rounded to the wire's type, then as in the tensor. Each step is the CPU's, bit by bit
/// (compression/cast.h, ops/kernels/reduce.h), but that a NaN stays as it is.
struct PackTask {
  PackWay way;
  PackWire wire;
  core::Dtype dtype;  ///< of the tensors; complex numbers are twice as many of their parts
  uint32_t element_bytes;
  uint32_t pieces;
  uint32_t tiles;
  uint32_t lanes;  ///< threads that share a tile: kWarp, or all of a block
  uint32_t unused;
  int64_t divisor;         ///< 1: none
  double factor;           ///< 1: none
  uint64_t neutral;        ///< bits of the wire's neutral element
  const PackPiece* table;  ///< null: `PackParameters::held`
  std::byte* buffer;
};

/// The parameters of a launch.
struct PackParameters {
  PackTask task;
  PackPiece held[kHeldPieces];
};
static_assert(sizeof(PackParameters) <= 4096);

/// The kernels by what they do, and their names in pack.cu.
enum class PackKernel : uint32_t { kBits, kFloats, kIntegers };
inline constexpr const char* kPackKernelNames[] = {"rueda_pack_bits", "rueda_pack_floats", "rueda_pack_integers"};
inline constexpr size_t kPackKernels = 3;

/// Returns how many tiles a piece of `count` elements has.
constexpr uint32_t tiles_of(int64_t count) {
  return static_cast<uint32_t>((count + kTileElements - 1) / kTileElements);
}

/// Returns by how many threads each of the pieces' `tiles` tiles is worked on.
constexpr uint32_t lanes_for(const PackPiece* pieces, size_t count, uint32_t tiles) {
  int64_t elements = 0;
  for (size_t i = 0; i < count; ++i) elements += pieces[i].count;
  return elements < kWarpedElements * tiles ? kWarp : kPackThreads;
}

/// Returns the index of the piece that tile number `tile` lies in, of `tiles`. Each piece has at least one.
constexpr uint32_t piece_of(const PackPiece* pieces, uint32_t count, uint32_t tile, uint32_t tiles) {
  if (count == tiles) return tile;
  uint32_t low = 0;
  uint32_t high = count;
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    (pieces[middle].first_tile <= tile ? low : high) = middle;
  }
  return low;
}

/// Returns the first element of tile number `tile` in its piece.
constexpr int64_t tile_begin(const PackPiece& piece, uint32_t tile) {
  return static_cast<int64_t>(tile - piece.first_tile) * kTileElements;
}

/// Returns the number of elements of tile number `tile` of the piece.
constexpr int tile_length(const PackPiece& piece, uint32_t tile) {
  const int64_t left = piece.count - tile_begin(piece, tile);
  return static_cast<int>(left < kTileElements ? left : kTileElements);
}

/// Returns how many elements of `bytes` lie before the first address at `address` or behind it that `alignment`
/// divides; -1 if there is none.
constexpr int elements_before(uintptr_t address, unsigned bytes, unsigned alignment) {
  const auto off = static_cast<unsigned>((alignment - address % alignment) % alignment);
  return off % bytes == 0 ? static_cast<int>(off / bytes) : -1;
}

/// Returns whether nothing but bits move.
constexpr bool moves_bits(const PackTask& task) {
  if (task.wire != PackWire::kSame || task.factor != 1.0 || task.divisor != 1) return false;
  return task.dtype != core::Dtype::kBool || task.way == PackWay::kScatter;
}

}  // namespace rueda::cuda
