// Lanes are made at first use: a job that uses one process set needs one lane's thread and channels. The baton's holder
// makes them; other threads look them up through atomics, so a lane may appear under them, and stays until `clear`.
#include "runtime/engine/lanes.h"

namespace rueda::core {

Lanes::Lanes(int count, std::function<std::unique_ptr<Lane>(int)> make, const Abort& abort, Finisher::Finish finish,
             Finisher::Look look)
    : make_(std::move(make)),
      lanes_(static_cast<size_t>(count)),
      finisher_(abort, std::move(finish), std::move(look)) {}

/// Batches of one set in one kind of memory stay in order because they share a lane, and a lane is a queue.
Lane& Lanes::of(SetId set, LaneUse use) {
  std::atomic<Lane*>& slot = lanes_[number_of(set, use)];
  if (slot.load(std::memory_order_relaxed) == nullptr) {
    owned_.push_back(make_(static_cast<int>(number_of(set, use))));
    slot.store(owned_.back().get());  // other threads find a lane that is complete
  }
  return *slot.load(std::memory_order_relaxed);
}

bool Lanes::step_inline() {
  bool moved = false;
  for (const auto& lane : owned_) moved |= lane->step_inline();
  return moved;
}

/// Whether a batch waits that only turns move on, until it is handed over.
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
  for (const LaneUse use : {LaneUse::kHostMemory, LaneUse::kDevices}) {
    const Lane* lane = lanes_[number_of(set, use)].load();
    if (lane != nullptr && lane->runs(set, number)) return true;
  }
  return finisher_.has(set, number);
}

LaneUse Lanes::use_of(SetId set, uint64_t number) const {
  const Lane* lane = lanes_[number_of(set, LaneUse::kHostMemory)].load();
  return lane != nullptr && lane->runs(set, number) ? LaneUse::kHostMemory : LaneUse::kDevices;
}

/// Sets share lanes, so the answer may be about another set's batch: the caller knows that its own runs.
int Lanes::awaited(SetId set, LaneUse use) const {
  const Lane* lane = lanes_[number_of(set, use)].load();
  return lane != nullptr ? lane->awaited() : Mesh::kNobody;
}

/// Not only lanes that wait: a lane that is about to wait finds its bell rung.
void Lanes::wake_all() {
  for (const auto& slot : lanes_) {
    if (Lane* lane = slot.load()) lane->wake();
  }
  finisher_.wake();
}

/// Lanes one after the other, so the answer is certain only if nothing is submitted meanwhile.
bool Lanes::idle() const {
  for (const auto& slot : lanes_) {
    if (const Lane* lane = slot.load(); lane != nullptr && !lane->idle()) return false;
  }
  return finisher_.idle();
}

/// One after the other: nothing is submitted any more, so a lane that was idle stays idle.
bool Lanes::drain(Deadline deadline) {
  for (const auto& slot : lanes_) {
    if (Lane* lane = slot.load(); lane != nullptr && !lane->drain(deadline)) return false;
  }
  return finisher_.drain(deadline);
}

/// The slots first, so that no lookup finds a lane that is being freed.
void Lanes::clear() {
  for (auto& slot : lanes_) slot.store(nullptr);
  owned_.clear();
}

/// Each lane's thread runs its queue to the end first. After an abort that is short: every wait fails at once.
void Lanes::stop() {
  for (const auto& lane : owned_) lane->stop();
  finisher_.stop();
}

}  // namespace rueda::core
