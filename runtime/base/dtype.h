#pragma once
#include <cstddef>
#include <cstdint>

namespace rueda::core {

/// Element types. The values are those of `rueda.h` and never change.
enum class Dtype : int32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kU64 = 6,
  kI64 = 7,
  kF16 = 8,
  kBf16 = 9,
  kF32 = 10,
  kF64 = 11,
  kBool = 12,
  kC64 = 13,     ///< two f32: real part, imaginary part
  kC128 = 14,    ///< two f64
  kOpaque = 15,  ///< bytes that only move: as many as the shape's last dimension says make an element of the caller's
};
inline constexpr int kDtypeCount = 16;

/// Reduction operators. The values are those of `rueda.h` and of the `hvd` dialect (Adasum is 2).
enum class ReduceOp : int32_t {
  kAverage = 0,
  kSum = 1,
  kAdasum = 2,
  kMin = 3,
  kMax = 4,
  kProduct = 5,
  kBand = 6,
  kBor = 7,
  kBxor = 8
};

/// Kinds of operation, as they travel in proposals.
enum class OpKind : int32_t {
  kAllreduce = 0,
  kBroadcast = 1,
  kBarrier = 2,
  kReducescatter = 3,
  kAllgather = 4,
  kAlltoall = 5,
  kGather = 6,
  kScatter = 7,
  kReduce = 8,
  kSend = 9,    ///< from its root to the other member of a set of two
  kJoin = 100,  ///< proposed as such and never as a tensor: no proposal carries its number
};
inline constexpr int kOpKindCount = 10;

/// Codecs by number, as they travel in proposals and stand in `rueda.h`.
enum class CodecId : int32_t { kNone = 0, kFp16 = 1, kBf16 = 2 };

bool valid(Dtype dtype);
/// Bytes of one element: 1, 2, 4, 8 or 16; of opaque tensors 1.
size_t size_of(Dtype dtype);
/// "f32", "bf16", ... as in rueda-perf and in error sentences.
const char* name_of(Dtype dtype);
const char* name_of(ReduceOp op);
const char* name_of(OpKind kind);
const char* name_of(CodecId codec);
bool is_float(Dtype dtype);
bool is_complex(Dtype dtype);
/// The float that a complex number has two of; any other dtype itself.
Dtype part_of(Dtype dtype);
bool is_bitwise(ReduceOp op);
/// Whether the kind adds up elements of all ranks: operator, codec and scales mean something.
bool reduces(OpKind kind);
/// Whether the kind moves as many rows as each rank has: dimension 0 is then not agreed on, and a result's size is
/// known only once the rows of all have come.
bool exchanges(OpKind kind);
/// Whether what a rank receives lies as what it gave, element by element, so that any order in memory will do that all
/// have.
bool keeps_places(OpKind kind);
/// Whether one rank is the root, which all must agree on.
bool has_root(OpKind kind);

}  // namespace rueda::core
