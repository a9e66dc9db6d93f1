#include "runtime/engine/planner.h"

#include <algorithm>
#include <utility>

#include "runtime/engine/messages.h"

namespace rueda::core {

FuseKey::FuseKey(const Metadata& metadata)
    : kind(metadata.kind),
      dtype(metadata.dtype),
      op(metadata.op),
      codec(metadata.codec),
      device(metadata.device),
      root(metadata.root),
      prescale(metadata.prescale),
      postscale(metadata.postscale) {}

void Planner::push(const FuseKey& key, const PlannedTensor& tensor) {
  ++waiting_;
  add(Unit{orders_++, tensor.bytes, key, tensor, {}, {}});
}

void Planner::push_group(std::span<const FuseKey> keys, std::span<const PlannedTensor> tensors) {
  ++waiting_;
  Unit unit{orders_++, 0, keys.front(), tensors.front(), {tensors.begin(), tensors.end()}, {}};
  for (const PlannedTensor& tensor : tensors) unit.bytes += tensor.bytes;
  const bool mixed = std::any_of(keys.begin(), keys.end(), [&](const FuseKey& key) { return key != keys.front(); });
  if (mixed) unit.keys.assign(keys.begin(), keys.end());
  add(std::move(unit));
}

void Planner::add(Unit unit) {
  if (barrier_) {
    behind_.push_back(std::move(unit));
  } else if (unit.key.kind == OpKind::kBarrier && unit.group.empty()) {
    barrier_ = std::move(unit);
  } else {
    bucket_for(unit.key).units.push_back(std::move(unit));
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
  return unit.group.empty() ? is_it(unit.first) : std::any_of(unit.group.begin(), unit.group.end(), is_it);
}

void Planner::remove(uint64_t id, uint64_t occurrence) {
  const auto is_it = [&](const Unit& unit) { return holds(unit, id, occurrence); };
  size_t removed = std::erase_if(behind_, is_it);
  for (Bucket& bucket : buckets_) removed += std::erase_if(bucket.units, is_it);
  waiting_ -= removed;
  if (!barrier_ || !is_it(*barrier_)) return;
  --waiting_;
  barrier_.reset();
  for (std::deque<Unit> rest = std::exchange(behind_, {}); !rest.empty(); rest.pop_front()) add(std::move(rest.front()));
}

bool Planner::fits_one_batch(const Unit& unit) const {
  if (unit.group.empty()) return true;
  return unit.keys.empty() && unit.key.kind != OpKind::kBarrier && unit.bytes <= threshold_ && threshold_ != 0 &&
         unit.group.size() <= kMaxRequests;
}

void Planner::split(const Unit& group, Cut& cut) const {
  std::vector<bool> taken(group.group.size(), false);
  for (size_t first = 0; first < taken.size(); ++first) {
    if (taken[first]) continue;
    uint64_t bytes = 0;
    size_t begin = cut.tensors.size();
    const auto key_of = [&](size_t i) -> const FuseKey& { return group.keys.empty() ? group.key : group.keys[i]; };
    for (size_t i = first; i < taken.size(); ++i) {
      if (taken[i] || key_of(i) != key_of(first)) continue;
      const size_t count = cut.tensors.size() - begin;
      const bool alone = threshold_ == 0 || key_of(i).kind == OpKind::kBarrier || count >= kMaxRequests;
      if (count != 0 && (alone || bytes + group.group[i].bytes > threshold_)) {
        cut.ends.push_back(cut.tensors.size());
        begin = cut.tensors.size();
        bytes = 0;
      }
      taken[i] = true;
      bytes += group.group[i].bytes;
      cut.tensors.push_back(group.group[i]);
    }
    if (cut.tensors.size() != begin) cut.ends.push_back(cut.tensors.size());
  }
}

void Planner::take_barrier(Cut& cut) {
  --waiting_;
  cut.tensors.push_back(barrier_->first);
  cut.ends.push_back(1);
  barrier_.reset();
  while (!behind_.empty() && !barrier_) {
    Unit unit = std::move(behind_.front());
    behind_.pop_front();
    add(std::move(unit));
  }
}

void Planner::next(Cut& cut) {
  cut.tensors.clear();
  cut.ends.clear();
  Bucket* bucket = oldest();
  if (bucket == nullptr) return take_barrier(cut);
  std::deque<Unit>& units = bucket->units;
  if (!fits_one_batch(units.front())) {
    split(units.front(), cut);
    units.pop_front();
    --waiting_;
    return;
  }
  uint64_t bytes = 0;
  while (!units.empty() && fits_one_batch(units.front())) {
    const Unit& unit = units.front();
    const bool full = threshold_ == 0 || bytes + unit.bytes > threshold_ ||
                      cut.tensors.size() + size_of_unit(unit) > kMaxRequests;
    if (!cut.tensors.empty() && full) break;
    bytes += unit.bytes;
    if (unit.group.empty()) {
      cut.tensors.push_back(unit.first);
    } else {
      cut.tensors.insert(cut.tensors.end(), unit.group.begin(), unit.group.end());
    }
    units.pop_front();
    --waiting_;
  }
  cut.ends.push_back(cut.tensors.size());
}

}  // namespace rueda::core
