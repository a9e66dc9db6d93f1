#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/agreement/batch_shape.h"
#include "runtime/agreement/request.h"
#include "runtime/base/deadline.h"
#include "runtime/base/dtype.h"
#include "runtime/base/phase_log.h"
#include "runtime/base/status.h"
#include "runtime/net/mesh.h"

namespace rueda::core {

/// The members of a batch: the ranks of the epoch that belong to the process set. Also the bracket in which sums are
/// taken: `groups[g]` consecutive members form group g (a host, or a part of a large host). A sum is a left fold inside
/// each group, then a left fold of the groups' sums. Made once per set; constant.
struct Team {
  std::vector<int> ranks;   ///< ranks of the epoch, ascending by host then rank: the canonical order
  int index = 0;            ///< this rank's index in `ranks`; -1 if it is not a member
  std::vector<int> groups;  ///< sizes, adding up to ranks.size()
  bool one_host = true;     ///< all members share memory
  std::vector<int> hosts;   ///< how many consecutive members each host has; empty if all are on one
  int size() const { return static_cast<int>(ranks.size()); }
};

/// One tensor's part in a batch. `in` may equal `out`; they never overlap otherwise. In a reduce-scatter `count` is the
/// input's, and `out` is for the rows that this rank gets; it may be their own address in the input. In an all-gather
/// of equal parts `in` may be the address of this rank's rows in `out`.
struct Slice {
  const std::byte* in;
  std::byte* out;
  int64_t count;    ///< elements, may be 0
  int64_t row = 1;  ///< elements of one row, for operations that deal out or exchange rows
  /// Exchanges: this rank's rows for each member, in the order of ranks; one number if all get the same.
  const int64_t* parts = nullptr;
  bool same_rows = false;  ///< an all-gather, in which all members have agreed that they bring as many rows, not 0
};

/// Gives memory to the rows that members send each other. Used by the thread that runs the batch.
class Arrivals {
 public:
  virtual ~Arrivals() = default;
  /// Tensor number `tensor` of the batch arrives as `rows[i]` rows from the member with the i-th lowest rank. Returns
  /// the address for all of them, in that order, or null if they are to be dropped. Receivers call it once for each
  /// tensor.
  virtual std::byte* place(size_t tensor, std::span<const int64_t> rows) = 0;
};

struct DeviceCall;

/// One batch as a lane runs it: the fused tensors of one verdict, in the verdict's order.
struct Call {
  OpKind kind = OpKind::kAllreduce;
  Dtype dtype = Dtype::kF32;
  ReduceOp op = ReduceOp::kSum;
  CodecId codec = CodecId::kNone;
  double prescale = 1.0;
  double postscale = 1.0;
  int64_t divisor = 0;  ///< of an average; 0 for the team's size
  int root = 0;         ///< index in the team
  std::span<const Slice> slices;
  int64_t count = 0;  ///< elements of all slices together
  AlgorithmChoice choice;
  uint64_t stamp = 0;  ///< first of the batch's stamps; chunk k uses stamp + k
  uint64_t key = 0;    ///< of a batch of one tensor from all members: what agreement calls it, equal on all; else 0
  const Team* team = nullptr;
  Arrivals* arrivals = nullptr;  ///< of a batch that exchanges rows
  PhaseLog* phases = nullptr;    ///< notes a timeline's phases; null if none is recorded
  DeviceCall* device = nullptr;  ///< of a batch in the memory of a device; null for host memory
};

/// Copies into `call` what agreement has made equal on all ranks: kind, dtype, operator, codec, scales.
inline void describe(const Metadata& metadata, Call& call) {
  call.kind = metadata.kind;
  call.dtype = metadata.dtype;
  call.op = metadata.op;
  call.codec = metadata.codec;
  call.prescale = metadata.prescale;
  call.postscale = metadata.postscale;
}

/// Returns whether a reduction of a set of one rank gives each number as it is, the bits of a NaN too. Scales and
/// codecs change numbers, adaptive sums have rules of their own, and a bool that is not 0 becomes 1.
inline bool keeps_bits(const Call& call) {
  return call.team->size() == 1 && call.codec == CodecId::kNone && call.prescale == 1.0 && call.postscale == 1.0 &&
         call.divisor <= 1 && call.dtype != Dtype::kBool && call.op != ReduceOp::kAdasum;
}

/// What is left of a resumable inline call between two turns. Cleared by the engine before the first step.
struct StepState {
  int phase = 0;
};
enum class StepResult { kDone, kPending };

/// The data plane as the runtime sees it; `ops` implements it. The engine owns it. `select`, `variants`,
/// `refinements`, `plan`, `runs_inline` and `algorithm_name` are pure: any thread. `step` and `run` belong to the
/// holder of the lane's token.
class Executor {
 public:
  virtual ~Executor() = default;
  /// Names the algorithm for a shape. Returns kInvalidArgument if a forced algorithm cannot serve it.
  virtual Result<AlgorithmChoice> select(const BatchShape& shape) const = 0;
  /// The ways to run a batch of this shape that give the same bits; fewer than two if there is nothing to choose.
  virtual std::vector<Variant> variants(const BatchShape& shape) const = 0;
  /// The variant, then others that differ from it in how members wait for each other and in how many slots they use;
  /// the variant alone if there is nothing to choose. All give the same bits.
  virtual std::vector<Variant> refinements(const BatchShape& shape, const Variant& variant) const = 0;
  /// The plan of a variant or refinement for a shape of the same class. Returns kUnsupported if it cannot serve this
  /// one.
  virtual Result<AlgorithmChoice> plan(const BatchShape& shape, const Variant& variant) const = 0;
  /// Whether `step` serves this choice, so that turns can run it.
  virtual bool runs_inline(const AlgorithmChoice& choice) const = 0;
  virtual const char* algorithm_name(uint8_t number) const = 0;
  /// Never blocks: posts what can be posted, checks, returns. Called again until it returns kDone.
  virtual Result<StepResult> step(const Call& call, Mesh& mesh, StepState& state) = 0;
  /// Runs the batch to its end; blocks. With `call.device` it returns once the rest is work that the device does by
  /// itself, and leaves the mark behind that work in `call.device->finished`. If it returns kPeerLost or kTimeout, the
  /// mesh is unusable and the epoch is over.
  virtual Status run(const Call& call, Mesh& mesh, Deadline deadline) = 0;
  /// Shows peers this rank's input to a batch that is yet to be agreed, if the algorithm of `call.choice` has a place
  /// for it. The stamp is a guess. Never blocks. The lane is idle, and only the
  /// caller can give it a batch.
  virtual void show_early(const Call& /*call*/, Mesh& /*mesh*/) {}
  /// The epoch has ended badly: what was launched on devices ends soon. Any thread; does not block.
  virtual void abort_devices() {}
  /// Returns why what was launched on devices will not end by itself, if a device's library knows of it; else ok. Any
  /// thread; does not block.
  virtual Status check_devices() { return {}; }
  /// The process set is gone, and nothing of it is in flight on this rank. Any thread; does not block.
  virtual void forget(SetId /*set*/) {}
  /// Gives back what devices' engines hold. After the last batch, and after its mark was passed or given up.
  virtual void close_devices() {}
};

}  // namespace rueda::core
