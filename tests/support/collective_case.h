#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/algorithm.h"
#include "ops/chunks.h"
#include "tests/support/case_memory.h"
#include "tests/support/exchange_case.h"

namespace rueda::core {

/// What one test batch does. A value.
struct CollectiveCase {
  enum class Buffers { kInPlace, kOutOfPlace };
  /// kExact: small whole numbers, whose sums every order and type gives exactly. kRounding: numbers of full precision.
  enum class Values { kExact, kRounding };

  OpKind kind = OpKind::kAllreduce;
  Dtype dtype = Dtype::kF32;
  ReduceOp op = ReduceOp::kSum;
  CodecId codec = CodecId::kNone;
  double prescale = 1.0;
  double postscale = 1.0;
  int root = 0;
  std::vector<int64_t> counts = {1};  ///< elements of each tensor
  int64_t row = 1;  ///< elements of a row: counts are multiples of it where rows are dealt out, rows where exchanged
  Buffers buffers = Buffers::kInPlace;
  Values values = Values::kExact;
  uint8_t lane_slots = 0;  ///< as in AlgorithmChoice
  /// Moves the formula along, so that what an earlier batch left in a slot is not right by accident.
  int64_t salt = 0;

  int64_t count() const;
  BatchShape shape(int ranks) const;
  /// The same with a salt made from the batch's stamp.
  CollectiveCase salted(uint64_t stamp) const;
  std::string text() const;
};

/// All-reduces of `counts` elements.
CollectiveCase reduction(Dtype dtype, ReduceOp op, std::vector<int64_t> counts);

inline constexpr Dtype kAllDtypes[] = {Dtype::kU8,  Dtype::kI8,  Dtype::kU16,  Dtype::kI16, Dtype::kU32,
                                       Dtype::kI32, Dtype::kU64, Dtype::kI64,  Dtype::kF16, Dtype::kBf16,
                                       Dtype::kF32, Dtype::kF64, Dtype::kBool, Dtype::kC64, Dtype::kC128};
inline constexpr ReduceOp kAllOps[] = {ReduceOp::kSum,     ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax,
                                       ReduceOp::kProduct, ReduceOp::kBand,    ReduceOp::kBor, ReduceOp::kBxor};

/// The algorithm of this name in the table. Throws if the table has none.
const Algorithm& algorithm_named(std::string_view name);

/// The algorithms that serve ranks which share no memory with each other: all that move data over channels alone,
/// adasum's apart.
std::vector<const Algorithm*> channel_algorithms();

/// The team of ranks 0 to size-1 as rank `index` sees it, in groups of at most `group`.
Team team_of(int size, int index, int group = 1 << 30);
/// A team of some ranks; `rank` is a member.
Team team_of(std::vector<int> ranks, int rank);

/// The shape as the algorithm can serve it: with tensors in shared memory if it serves no others.
BatchShape shape_for(const Algorithm& algorithm, const CollectiveCase& test, int ranks);
/// The memory for tensors in such a batch: the own arena, or null for private memory.
TensorArena* arena_for(const Algorithm& algorithm, const CollectiveCase& test, int ranks, const Mesh& mesh);

/// The tensors of one member in one batch, filled by a formula. Used by that member's thread. Borrows case and team.
class CaseTensors {
 public:
  /// In a block of `arena`, with gaps between them, if that is not null. It outlives the tensors.
  CaseTensors(const CollectiveCase& test, const Team& team, TensorArena* arena = nullptr);
  /// Borrows the tensors and the team.
  Call call(const AlgorithmChoice& choice, uint64_t stamp) const;
  /// Not ok if an element of a result is not what the formula says: names the case, the member, the index and both
  /// values. Only for exact values.
  Status check() const;
  /// Not ok if an out-of-place batch has written to its inputs, or any batch between tensors in an arena.
  Status check_inputs() const;
  /// All results, one tensor after the other.
  std::vector<std::byte> results() const;

 private:
  void fill();
  void fill_exchange();
  Status check_arrived() const;
  /// What this member has of tensor `tensor` afterwards.
  ElementRange result_range(size_t tensor) const;

  const CollectiveCase& case_;
  const Team& team_;
  CaseMemory memory_;
  std::vector<std::span<std::byte>> inputs_, outputs_;  ///< no outputs where they lie in the inputs
  std::vector<Slice> slices_;
  std::vector<ExchangeInput> exchanged_;  ///< instead of inputs, where rows are exchanged
  mutable Arrived arrived_;               ///< instead of outputs
};

/// Runs one batch of an algorithm on a member: its plan with `chunk_bytes` (0: as planned), the algorithm, the check.
/// Salted by the stamp, which moves on.
Status run_case(const Algorithm& algorithm, const CollectiveCase& test, const Team& team, Mesh& mesh, uint64_t& stamp,
                uint32_t chunk_bytes = 0);

}  // namespace rueda::core
