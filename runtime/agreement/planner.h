#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/agreement/fifo.h"
#include "runtime/agreement/request.h"

namespace rueda::core {

/// Tensors with equal keys may share a batch.
struct FuseKey {
  /// `absent` is the number of members that contribute nothing, `memory` what all members' tensors lie in.
  explicit FuseKey(const Metadata& metadata, uint32_t absent = 0, MemoryKind memory = MemoryKind::kPrivate);
  OpKind kind;
  Dtype dtype;
  ReduceOp op;
  CodecId codec;
  int32_t device;
  int32_t root;
  double prescale;
  double postscale;
  AverageOver over;
  uint32_t absent;
  MemoryKind memory;
  bool operator==(const FuseKey&) const = default;
};

/// One agreed occurrence, as the planner knows it.
struct PlannedTensor {
  uint64_t id = 0;
  uint64_t occurrence = 0;
  uint64_t bytes = 0;
};

/// The result of one step of the planner: one batch, or the consecutive batches of a group that does not fit in one.
/// Batch i ends before `tensors[ends[i]]`.
struct Cut {
  std::vector<PlannedTensor> tensors;
  std::vector<size_t> ends;
};

/// Holds what one process set has agreed on and not yet run, in the order of readiness, and cuts it into batches. A
/// batch is the oldest unit (a tensor or a group) and the units behind it that may share its batch, up to the
/// threshold, or 25 MiB on a device. It passes units of other dtypes or ops, but no barrier. Pure; owned by the
/// arbiter.
///
///   ready ─▶ buckets by FuseKey ─▶ cut oldest head's bucket       barrier: ends the buckets, leaves alone
class Planner {
 public:
  /// Without fusion if `threshold_bytes` is 0.
  explicit Planner(uint64_t threshold_bytes) : threshold_(threshold_bytes) {}
  void push(const FuseKey& key, const PlannedTensor& tensor);
  /// Adds a group as one unit, in its order. `keys` and `tensors` have the same size.
  void push_group(std::span<const FuseKey> keys, std::span<const PlannedTensor> tensors);
  /// Takes out the unit with this occurrence, if it is here.
  void remove(uint64_t id, uint64_t occurrence);
  bool empty() const { return waiting_ == 0; }
  /// Takes out the next cut. Reuses the memory of `cut`. Must not be called if `empty()`.
  void next(Cut& cut);

 private:
  struct Group {
    std::vector<PlannedTensor> tensors;
    std::vector<FuseKey> keys;  ///< empty if all are equal
  };
  struct Unit {
    uint64_t order = 0;
    PlannedTensor first;
    uint64_t bytes = 0;
    std::unique_ptr<const Group> group;  ///< null: a single tensor
  };
  /// A unit outside of a bucket.
  struct Held {
    FuseKey key;  ///< of the unit's first tensor
    Unit unit;
  };
  struct Bucket {
    FuseKey key;  ///< of the first tensor of each unit
    Fifo<Unit> units;
  };
  void add(const FuseKey& key, Unit unit);
  Bucket& bucket_for(const FuseKey& key);
  Bucket* oldest();
  static size_t size_of_unit(const Unit& unit) { return unit.group == nullptr ? 1 : unit.group->tensors.size(); }
  static bool holds(const Unit& unit, uint64_t id, uint64_t occurrence);
  bool fits_one_batch(const FuseKey& key, const Unit& unit) const;
  uint64_t limit_of(const FuseKey& key) const;
  void split(const FuseKey& key, const Unit& unit, Cut& cut) const;
  void take_barrier(Cut& cut);
  void release_behind();

  uint64_t threshold_;
  uint64_t orders_ = 0;
  size_t waiting_ = 0;
  std::vector<Bucket> buckets_;
  std::optional<Held> barrier_;
  Fifo<Held> behind_;  ///< what became ready after the barrier
};

}  // namespace rueda::core
