// How what is agreed is cut into batches. Units (a tensor or a group) wait in buckets of equal `FuseKey`, in order of
// readiness. The oldest unit of all buckets leads the next batch, and younger units of its bucket fill it up to the
// threshold:
//
//   bucket f32 sum   1 2 . 4 5        cut: 1 2 4 5, past 3
//   bucket i64 max   . . 3 . .        next cut: 3
//
// Passing units of other keys is what makes mixed dtypes fuse; leading with the oldest is what keeps any from starving.
// A barrier orders what is around it, so it empties the buckets first, leaves alone, and what became ready after it
// waits in `behind_`.
#include "runtime/agreement/planner.h"

#include <algorithm>
#include <utility>

#include "runtime/agreement/messages.h"

namespace rueda::core {

namespace {

/// A program may enqueue the gradients of a whole backward pass before the device has made the first. A batch begins
/// when its last input is there, so a long one would wait for the end of the pass.
constexpr uint64_t kMostOnDevice = 25 << 20;

}  // namespace

FuseKey::FuseKey(const Metadata& metadata, uint32_t absent_members, MemoryKind common_memory)
    : kind(metadata.kind),
      dtype(metadata.dtype),
      op(metadata.op),
      codec(metadata.codec),
      device(metadata.device),
      root(metadata.root),
      prescale(metadata.prescale),
      postscale(metadata.postscale),
      over(metadata.over),
      absent(absent_members),
      memory(common_memory) {}

void Planner::push(const FuseKey& key, const PlannedTensor& tensor) {
  ++waiting_;
  add(key, Unit{orders_++, tensor, tensor.bytes, nullptr});
}

/// A group is one unit: it leaves whole, at the position of its readiness.
void Planner::push_group(std::span<const FuseKey> keys, std::span<const PlannedTensor> tensors) {
  ++waiting_;
  auto group = std::make_unique<Group>();
  group->tensors.assign(tensors.begin(), tensors.end());
  // Equal keys are the usual case and are not stored a second time.
  const bool mixed = std::any_of(keys.begin(), keys.end(), [&](const FuseKey& key) { return key != keys.front(); });
  if (mixed) group->keys.assign(keys.begin(), keys.end());
  uint64_t bytes = 0;
  for (const PlannedTensor& tensor : tensors) bytes += tensor.bytes;
  add(keys.front(), Unit{orders_++, tensors.front(), bytes, std::move(group)});
}

void Planner::add(const FuseKey& key, Unit unit) {
  if (barrier_) {
    behind_.push_back({key, std::move(unit)});
  } else if (key.kind == OpKind::kBarrier && unit.group == nullptr) {
    barrier_ = Held{key, std::move(unit)};
  } else {
    bucket_for(key).units.push_back(std::move(unit));
  }
}

/// A linear search: a job has a handful of keys. Empty buckets are used again, since their queues keep their memory.
Planner::Bucket& Planner::bucket_for(const FuseKey& key) {
  Bucket* spare = nullptr;
  for (Bucket& bucket : buckets_) {
    if (bucket.key == key) return bucket;
    if (bucket.units.empty()) spare = &bucket;
  }
  if (spare == nullptr) return buckets_.emplace_back(Bucket{key, {}});
  spare->key = key;
  return *spare;
}

/// The bucket with the oldest unit at its front, or null if all are empty.
Planner::Bucket* Planner::oldest() {
  Bucket* found = nullptr;
  for (Bucket& bucket : buckets_) {
    if (bucket.units.empty()) continue;
    if (found == nullptr || bucket.units.front().order < found->units.front().order) found = &bucket;
  }
  return found;
}

bool Planner::holds(const Unit& unit, uint64_t id, uint64_t occurrence) {
  const auto is_it = [&](const PlannedTensor& tensor) { return tensor.id == id && tensor.occurrence == occurrence; };
  if (unit.group == nullptr) return is_it(unit.first);
  return std::any_of(unit.group->tensors.begin(), unit.group->tensors.end(), is_it);
}

/// Takes out a unit that has failed. If that was the barrier, what waited behind it goes on. A group leaves as a whole
/// with the first of its tensors, so the calls for its other tensors find nothing.
void Planner::remove(uint64_t id, uint64_t occurrence) {
  const auto is_it = [&](const Unit& unit) { return holds(unit, id, occurrence); };
  size_t removed = behind_.remove_if([&](const Held& held) { return is_it(held.unit); });
  for (Bucket& bucket : buckets_) removed += bucket.units.remove_if(is_it);
  waiting_ -= removed;
  if (!barrier_ || !is_it(barrier_->unit)) return;
  --waiting_;
  barrier_.reset();
  release_behind();
}

/// Lets units behind the barrier go on, up to the next barrier.
void Planner::release_behind() {
  while (!behind_.empty() && !barrier_) {
    Held held = behind_.pop_front();
    add(held.key, std::move(held.unit));
  }
}

uint64_t Planner::limit_of(const FuseKey& key) const {
  return key.device < 0 ? threshold_ : std::min(threshold_, kMostOnDevice);
}

/// A group of several keys or above the threshold takes several batches: it is split, and fuses with nothing else.
bool Planner::fits_one_batch(const FuseKey& key, const Unit& unit) const {
  if (unit.group == nullptr) return true;
  return unit.group->keys.empty() && key.kind != OpKind::kBarrier && unit.bytes <= threshold_ && threshold_ != 0 &&
         unit.group->tensors.size() <= kMaxRequests;
}

/// Cuts a group into batches of one key each, in the group's order, none above the threshold unless a single tensor is.
/// All of them belong to one cut, so the arbiter can refuse them together.
void Planner::split(const FuseKey& key, const Unit& unit, Cut& cut) const {
  const Group& group = *unit.group;
  std::vector<bool> taken(group.tensors.size(), false);
  // One round for each key of the group; a round takes all tensors of the key of the first one that is left.
  for (size_t first = 0; first < taken.size(); ++first) {
    if (taken[first]) continue;
    uint64_t bytes = 0;
    size_t begin = cut.tensors.size();
    const auto key_of = [&](size_t i) -> const FuseKey& { return group.keys.empty() ? key : group.keys[i]; };
    for (size_t i = first; i < taken.size(); ++i) {
      if (taken[i] || key_of(i) != key_of(first)) continue;
      const size_t count = cut.tensors.size() - begin;
      // Without fusion, and for a barrier, each tensor is a batch.
      const bool alone = threshold_ == 0 || key_of(i).kind == OpKind::kBarrier || count >= kMaxRequests;
      if (count != 0 && (alone || bytes + group.tensors[i].bytes > threshold_)) {
        cut.ends.push_back(cut.tensors.size());
        begin = cut.tensors.size();
        bytes = 0;
      }
      taken[i] = true;
      bytes += group.tensors[i].bytes;
      cut.tensors.push_back(group.tensors[i]);
    }
    if (cut.tensors.size() != begin) cut.ends.push_back(cut.tensors.size());
  }
}

void Planner::take_barrier(Cut& cut) {
  --waiting_;
  cut.tensors.push_back(barrier_->unit.first);
  cut.ends.push_back(1);
  barrier_.reset();
  release_behind();
}

/// Fills one batch from the bucket of the oldest unit, or splits that unit if it does not fit in one batch.
void Planner::next(Cut& cut) {
  cut.tensors.clear();
  cut.ends.clear();
  Bucket* bucket = oldest();
  // Barriers come only when the buckets are empty: everything ready before one leaves before it.
  if (bucket == nullptr) return take_barrier(cut);
  Fifo<Unit>& units = bucket->units;
  if (!fits_one_batch(bucket->key, units.front())) {
    split(bucket->key, units.front(), cut);
    units.drop_front();
    --waiting_;
    return;
  }
  uint64_t bytes = 0;
  const uint64_t limit = limit_of(bucket->key);
  while (!units.empty() && fits_one_batch(bucket->key, units.front())) {
    const Unit& unit = units.front();
    // The first unit always fits, or a tensor above the threshold would never leave.
    const bool full =
        threshold_ == 0 || bytes + unit.bytes > limit || cut.tensors.size() + size_of_unit(unit) > kMaxRequests;
    if (!cut.tensors.empty() && full) break;
    bytes += unit.bytes;
    if (unit.group == nullptr) {
      cut.tensors.push_back(unit.first);
    } else {
      cut.tensors.insert(cut.tensors.end(), unit.group->tensors.begin(), unit.group->tensors.end());
    }
    units.drop_front();
    --waiting_;
  }
  cut.ends.push_back(cut.tensors.size());
}

}  // namespace rueda::core
