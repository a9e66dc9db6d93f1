#include "runtime/agreement/planner.h"

#include <algorithm>
#include <utility>

#include "runtime/agreement/messages.h"

namespace rueda::core {

FuseKey::FuseKey(const Metadata& metadata, uint32_t absent_members)
    : kind(metadata.kind),
      dtype(metadata.dtype),
      op(metadata.op),
      codec(metadata.codec),
      device(metadata.device),
      root(metadata.root),
      prescale(metadata.prescale),
      postscale(metadata.postscale),
      over(metadata.over),
      absent(absent_members) {}

void Planner::push(const FuseKey& key, const PlannedTensor& tensor) {
  ++waiting_;
  add(Unit{orders_++, key, tensor, tensor.bytes, nullptr});
}

void Planner::push_group(std::span<const FuseKey> keys, std::span<const PlannedTensor> tensors) {
  ++waiting_;
  auto group = std::make_unique<Group>();
  group->tensors.assign(tensors.begin(), tensors.end());
  const bool mixed = std::any_of(keys.begin(), keys.end(), [&](const FuseKey& key) { return key != keys.front(); });
  if (mixed) group->keys.assign(keys.begin(), keys.end());
  uint64_t bytes = 0;
  for (const PlannedTensor& tensor : tensors) bytes += tensor.bytes;
  add(Unit{orders_++, keys.front(), tensors.front(), bytes, std::move(group)});
}

void Planner::add(Unit unit) {
  if (barrier_) {
    behind_.push_back(std::move(unit));
  } else if (unit.key.kind == OpKind::kBarrier && unit.group == nullptr) {
    barrier_ = std::move(unit);
  } else {
    Bucket& bucket = bucket_for(unit.key);
    bucket.units.push_back(std::move(unit));
  }
}

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

void Planner::remove(uint64_t id, uint64_t occurrence) {
  const auto is_it = [&](const Unit& unit) { return holds(unit, id, occurrence); };
  size_t removed = behind_.remove_if(is_it);
  for (Bucket& bucket : buckets_) removed += bucket.units.remove_if(is_it);
  waiting_ -= removed;
  if (!barrier_ || !is_it(*barrier_)) return;
  --waiting_;
  barrier_.reset();
  release_behind();
}

/// What waited for a barrier goes on, up to the next one.
void Planner::release_behind() {
  while (!behind_.empty() && !barrier_) add(behind_.pop_front());
}

bool Planner::fits_one_batch(const Unit& unit) const {
  if (unit.group == nullptr) return true;
  return unit.group->keys.empty() && unit.key.kind != OpKind::kBarrier && unit.bytes <= threshold_ && threshold_ != 0 &&
         unit.group->tensors.size() <= kMaxRequests;
}

void Planner::split(const Unit& unit, Cut& cut) const {
  const Group& group = *unit.group;
  std::vector<bool> taken(group.tensors.size(), false);
  for (size_t first = 0; first < taken.size(); ++first) {
    if (taken[first]) continue;
    uint64_t bytes = 0;
    size_t begin = cut.tensors.size();
    const auto key_of = [&](size_t i) -> const FuseKey& { return group.keys.empty() ? unit.key : group.keys[i]; };
    for (size_t i = first; i < taken.size(); ++i) {
      if (taken[i] || key_of(i) != key_of(first)) continue;
      const size_t count = cut.tensors.size() - begin;
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
  cut.tensors.push_back(barrier_->first);
  cut.ends.push_back(1);
  barrier_.reset();
  release_behind();
}

void Planner::next(Cut& cut) {
  cut.tensors.clear();
  cut.ends.clear();
  Bucket* bucket = oldest();
  if (bucket == nullptr) return take_barrier(cut);
  Fifo<Unit>& units = bucket->units;
  if (!fits_one_batch(units.front())) {
    split(units.pop_front(), cut);
    --waiting_;
    return;
  }
  uint64_t bytes = 0;
  while (!units.empty() && fits_one_batch(units.front())) {
    const Unit& unit = units.front();
    const bool full =
        threshold_ == 0 || bytes + unit.bytes > threshold_ || cut.tensors.size() + size_of_unit(unit) > kMaxRequests;
    if (!cut.tensors.empty() && full) break;
    bytes += unit.bytes;
    if (unit.group == nullptr) {
      cut.tensors.push_back(unit.first);
    } else {
      cut.tensors.insert(cut.tensors.end(), unit.group->tensors.begin(), unit.group->tensors.end());
    }
    units.pop_front();
    --waiting_;
  }
  cut.ends.push_back(cut.tensors.size());
}

}  // namespace rueda::core
