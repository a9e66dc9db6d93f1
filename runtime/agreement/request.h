#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/agreement/tensor_name.h"
#include "runtime/base/dtype.h"
#include "runtime/base/extents.h"

namespace rueda::core {

using SetId = uint32_t;
inline constexpr SetId kGlobalSet = 0;

/// What an average divides by if some members of the set have joined.
enum class AverageOver : uint8_t { kMembers = 0, kContributors = 1 };

/// The memory that a rank's tensor lies in. Ranks may bring different ones; a batch uses shared memory only if each of
/// its tensors does on every rank.
enum class MemoryKind : uint8_t { kPrivate = 0, kShared = 1 };

/// What all ranks must agree on for one occurrence of a tensor; interned by rank 0 as a metadata id. Compared field by
/// field when ranks disagree, so that the error can say which ranks sent what.
struct Metadata {
  OpKind kind = OpKind::kAllreduce;
  Dtype dtype = Dtype::kF32;
  ReduceOp op = ReduceOp::kSum;
  CodecId codec = CodecId::kNone;
  int32_t device = -1;  ///< -1 host memory; else the device kind (ranks may use different ordinals)
  int32_t root = -1;    ///< rank of the epoch; -1: no root
  double prescale = 1.0;
  double postscale = 1.0;
  AverageOver over = AverageOver::kMembers;
  /// At most 16 dimensions. An opaque tensor has one more: the bytes of an element, at least 1. Of a kind that
  /// exchanges rows the first is 0, because ranks may bring different numbers of them; in an all-gather it may be a
  /// number that all bring.
  Extents shape;
  /// Dimensions from the outermost in memory to the innermost; empty: row-major. Those of extent 1 have no stride that
  /// matters and come first, in ascending order.
  std::vector<uint8_t> order;
  uint64_t group_hash = 0;                   ///< hash of the group's ordered names; 0 when not in a group
  uint32_t group_size = 0;                   ///< members of the group; 0 when not in a group
  MemoryKind memory = MemoryKind::kPrivate;  ///< of this rank's tensor: no disagreement if ranks differ
  bool operator==(const Metadata&) const = default;
  /// Whether the two differ in nothing that ranks must agree on.
  bool agrees_with(const Metadata& other) const;
  int64_t count() const;  ///< product of all of `shape`: for opaque tensors the bytes
  /// The caller's shape, without an opaque element's bytes.
  std::span<const int64_t> dimensions() const;
  /// Bytes of one element as the caller counts them.
  size_t element_bytes() const;
};

/// A tensor as a rank submits it to agreement. `ticket` is the submitting rank's own name for the operation: agreement
/// hands it back in exactly one event.
struct Request {
  uint64_t ticket = 0;
  SetId set = kGlobalSet;
  TensorName name;  ///< empty: keyed by (set, kind) and call order
  Metadata metadata;
  uint64_t group = 0;  ///< this rank's number of the group instance, 0: none; members are submitted together
  /// This rank's own number for the name, which saves the look-up; 0: none.
  uint32_t number = 0;
};
static_assert(std::is_nothrow_move_constructible_v<Request>);  // vectors of them grow without copies

/// Fills in `group_hash` and `group_size` of the requests of one group, in their order.
void describe_group(std::span<Request> requests);

}  // namespace rueda::core
