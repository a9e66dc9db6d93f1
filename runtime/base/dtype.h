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
  kOpaque = 15,  ///< bytes that are only moved; the shape's last dimension is the size of the caller's element
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

/// Kinds of operation, as they travel in proposals. `kOpKinds` says what is true of each.
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

/// What is true of a kind of operation.
struct OpKindFacts {
  OpKind kind;
  const char* name;
  /// Adds up elements of all ranks: operator, codec and scales mean something.
  bool reduces = false;
  /// Moves as many rows as each rank has: dimension 0 is then not agreed on, and a result's size is known only once the
  /// rows of all ranks have come.
  bool exchanges = false;
  /// A rank receives each element at the position at which it gave one, so any order in memory will do that all ranks
  /// have.
  bool keeps_positions = false;
  /// One rank is the root, which all ranks must agree on.
  bool has_root = false;
};
/// All kinds that have tensors, and the barrier, by number. The one list of them: tests and tools loop over it.
inline constexpr OpKindFacts kOpKinds[] = {
    {.kind = OpKind::kAllreduce, .name = "allreduce", .reduces = true, .keeps_positions = true},
    {.kind = OpKind::kBroadcast, .name = "broadcast", .keeps_positions = true, .has_root = true},
    {.kind = OpKind::kBarrier, .name = "barrier"},
    {.kind = OpKind::kReducescatter, .name = "reducescatter", .reduces = true},
    {.kind = OpKind::kAllgather, .name = "allgather", .exchanges = true},
    {.kind = OpKind::kAlltoall, .name = "alltoall", .exchanges = true},
    {.kind = OpKind::kGather, .name = "gather", .exchanges = true, .has_root = true},
    {.kind = OpKind::kScatter, .name = "scatter", .exchanges = true, .has_root = true},
    {.kind = OpKind::kReduce, .name = "reduce", .reduces = true, .keeps_positions = true, .has_root = true},
    {.kind = OpKind::kSend, .name = "send", .keeps_positions = true, .has_root = true},
};
inline constexpr int kOpKindCount = sizeof kOpKinds / sizeof kOpKinds[0];
/// The facts of any kind; of the join its name only, and of a number that is no kind the name "?".
constexpr OpKindFacts facts_of(OpKind kind) {
  const auto number = static_cast<int32_t>(kind);
  if (number >= 0 && number < kOpKindCount) return kOpKinds[number];
  return {.kind = kind, .name = kind == OpKind::kJoin ? "join" : "?"};
}
constexpr const char* name_of(OpKind kind) { return facts_of(kind).name; }
constexpr bool reduces(OpKind kind) { return facts_of(kind).reduces; }
constexpr bool exchanges(OpKind kind) { return facts_of(kind).exchanges; }
constexpr bool keeps_positions(OpKind kind) { return facts_of(kind).keeps_positions; }
constexpr bool has_root(OpKind kind) { return facts_of(kind).has_root; }

/// Codecs by number, as in proposals and in `rueda.h`.
enum class CodecId : int32_t { kNone = 0, kFp16 = 1, kBf16 = 2 };

/// Whether the number is that of a dtype.
constexpr bool valid(Dtype dtype) {
  return static_cast<int32_t>(dtype) >= 0 && static_cast<int32_t>(dtype) < kDtypeCount;
}
/// Bytes of one element by dtype: see `size_of`.
inline constexpr uint8_t kElementBytes[kDtypeCount] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 1, 8, 16, 1};
/// Bytes of one element: 1, 2, 4, 8 or 16; 1 for opaque tensors.
constexpr size_t size_of(Dtype dtype) { return kElementBytes[static_cast<size_t>(dtype)]; }
/// "f32", "bf16", ... as in rueda-perf and in error sentences.
const char* name_of(Dtype dtype);
const char* name_of(ReduceOp op);
const char* name_of(CodecId codec);
constexpr bool is_float(Dtype dtype) {
  return dtype == Dtype::kF16 || dtype == Dtype::kBf16 || dtype == Dtype::kF32 || dtype == Dtype::kF64;
}
constexpr bool is_complex(Dtype dtype) { return dtype == Dtype::kC64 || dtype == Dtype::kC128; }
/// The float type of the parts of a complex type; any other dtype itself.
constexpr Dtype part_of(Dtype dtype) {
  if (!is_complex(dtype)) return dtype;
  return dtype == Dtype::kC64 ? Dtype::kF32 : Dtype::kF64;
}
constexpr bool is_bitwise(ReduceOp op) {
  return op == ReduceOp::kBand || op == ReduceOp::kBor || op == ReduceOp::kBxor;
}

}  // namespace rueda::core
