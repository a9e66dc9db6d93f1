#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/agreement/batch_shape.h"
#include "runtime/base/deadline.h"
#include "runtime/base/dtype.h"
#include "runtime/base/phase_log.h"
#include "runtime/base/status.h"
#include "runtime/net/mesh.h"

namespace rueda::core {

/// Who takes part in a batch: the ranks of the epoch that belong to the process set, and the bracket in which sums are
/// taken: `groups[g]` consecutive members form group g (a host, or a part of a large host); a sum is a left fold inside
/// each group, then a left fold of the groups' sums. Made once per set.
struct Team {
  std::vector<int> ranks;   ///< ranks of the epoch, ascending by host then rank: the canonical order
  int index = 0;            ///< this rank's place in `ranks`; -1 when it is no member
  std::vector<int> groups;  ///< sizes, adding up to ranks.size()
  bool one_host = true;     ///< all members share memory
  std::vector<int> hosts;   ///< how many consecutive members each host has; empty: all are on one
  int size() const { return static_cast<int>(ranks.size()); }
};

/// One tensor's part in a batch. `in` may equal `out`; they never overlap otherwise. In a reduce-scatter `count` is the
/// input's, and `out` is the own rows' place, which may be where they lie in the input.
struct Slice {
  const std::byte* in;
  std::byte* out;
  int64_t count;    ///< elements, may be 0
  int64_t row = 1;  ///< elements that one step of dimension 0 spans: where rows are dealt out or exchanged
  /// Exchanges: own rows for each member, in the order of ranks; one number where all get the same.
  const int64_t* parts = nullptr;
};

/// Where what the members send each other goes, in a batch that exchanges rows. Used by whoever runs the batch.
class Arrivals {
 public:
  virtual ~Arrivals() = default;
  /// Tensor number `tensor` of the batch arrives as `rows[i]` rows from the member with the i-th lowest rank. The place
  /// of all of them, in that order; null: they are to be dropped. Called once for each tensor, by receivers.
  virtual std::byte* place(size_t tensor, std::span<const int64_t> rows) = 0;
};

/// One batch as a lane runs it: the fused tensors of one verdict, in the verdict's order.
struct Call {
  OpKind kind = OpKind::kAllreduce;
  Dtype dtype = Dtype::kF32;
  ReduceOp op = ReduceOp::kSum;
  CodecId codec = CodecId::kNone;
  double prescale = 1.0;
  double postscale = 1.0;
  int64_t divisor = 0;  ///< of an average; 0: the team's size
  int root = 0;         ///< index in the team
  std::span<const Slice> slices;
  int64_t count = 0;  ///< elements of all slices together
  AlgorithmChoice choice;
  uint64_t stamp = 0;  ///< first of the batch's stamps; chunk k uses stamp + k
  const Team* team = nullptr;
  Arrivals* arrivals = nullptr;  ///< of a batch that exchanges rows
  PhaseLog* phases = nullptr;    ///< where a timeline's phases are noted; null: nobody wants to know
};

/// What is left of a resumable inline call between two turns. Cleared by the engine before the first step.
struct StepState {
  int phase = 0;
};
enum class StepResult { kDone, kPending };

/// The data plane as the runtime sees it; `ops` implements it. `select` and `runs_inline` are pure: any thread.
/// `step` and `run` belong to the holder of the mesh's token.
class Executor {
 public:
  virtual ~Executor() = default;
  /// kInvalidArgument if a forced row cannot serve this shape.
  virtual Result<AlgorithmChoice> select(const BatchShape& shape) const = 0;
  virtual bool runs_inline(const AlgorithmChoice& choice) const = 0;
  virtual const char* algorithm_name(uint8_t row) const = 0;
  /// Never blocks: posts what can be posted, checks, returns. Called again until done.
  virtual Result<StepResult> step(const Call& call, Mesh& mesh, StepState& state) = 0;
  /// Runs the batch to its end. kPeerLost, kTimeout: the epoch is over.
  virtual Status run(const Call& call, Mesh& mesh, Deadline deadline) = 0;
};

}  // namespace rueda::core
