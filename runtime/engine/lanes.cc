#include "runtime/engine/lanes.h"

namespace rueda::core {

Lanes::Lanes(int count, std::function<std::unique_ptr<Lane>(int)> make)
    : make_(std::move(make)), lanes_(static_cast<size_t>(count)) {}

Lane& Lanes::of(SetId set) {
  std::atomic<Lane*>& place = lanes_[set % lanes_.size()];
  if (place.load(std::memory_order_relaxed) == nullptr) {
    owned_.push_back(make_(static_cast<int>(set % lanes_.size())));
    place.store(owned_.back().get());
  }
  return *place.load(std::memory_order_relaxed);
}

bool Lanes::step_inline() {
  bool moved = false;
  for (const auto& lane : owned_) moved |= lane->step_inline();
  return moved;
}

bool Lanes::has_inline() const {
  for (const auto& lane : owned_) {
    if (lane->has_inline()) return true;
  }
  return false;
}

void Lanes::hand_over() {
  for (const auto& lane : owned_) lane->hand_over();
}

bool Lanes::runs(SetId set, uint64_t number) const {
  const Lane* lane = lanes_[set % lanes_.size()].load();
  return lane != nullptr && lane->runs(set, number);
}

int Lanes::awaited(SetId set) const {
  const Lane* lane = lanes_[set % lanes_.size()].load();
  return lane != nullptr ? lane->awaited() : Mesh::kNobody;
}

void Lanes::wake_all() {
  for (const auto& place : lanes_) {
    if (Lane* lane = place.load()) lane->wake();
  }
}

bool Lanes::idle() const {
  for (const auto& place : lanes_) {
    if (const Lane* lane = place.load(); lane != nullptr && !lane->idle()) return false;
  }
  return true;
}

bool Lanes::drain(Deadline deadline) {
  for (const auto& place : lanes_) {
    if (Lane* lane = place.load(); lane != nullptr && !lane->drain(deadline)) return false;
  }
  return true;
}

void Lanes::clear() {
  for (auto& place : lanes_) place.store(nullptr);
  owned_.clear();
}

void Lanes::stop() {
  for (const auto& lane : owned_) lane->stop();
}

}  // namespace rueda::core
