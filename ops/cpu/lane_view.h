#pragma once
#include <cstdint>

#include "runtime/base/deadline.h"
#include "runtime/engine/executor.h"
#include "runtime/net/mesh.h"

namespace rueda::core {

/// One rank's side of a batch in shared memory: publishes its own words, looks at those of the other members, and keeps
/// an area from being written while a peer may still read it. Lives for one step or run, on the holder of the lane's
/// token; borrows call and mesh.
///
/// A word holds a count of stamps: `stamp + k + 1` says that the batch's chunk k is through that stage. Lanes are FIFO
/// and stamps grow, so a word beyond a batch's first stamp also says that its owner has left every earlier batch.
class LaneView {
 public:
  enum class Word { kPosted, kReduced, kDone };
  using Area = SlotLedger::Area;

  LaneView(const Call& call, Mesh& mesh) : call_(call), team_(*call.team), mesh_(mesh) {}

  int size() const { return team_.size(); }
  int index() const { return team_.index; }
  int rank_of(int index) const { return team_.ranks[static_cast<size_t>(index)]; }
  uint64_t value(int64_t chunk) const { return call_.stamp + static_cast<uint64_t>(chunk) + 1; }
  /// How many slots the batch uses in turn, the same on all ranks.
  int slots() const { return call_.choice.lane_slots != 0 ? call_.choice.lane_slots : mesh_.layout().slots; }
  /// The slot of a chunk, the same on all ranks; batches that follow each other do not start in the same one.
  int slot(int64_t chunk) const;
  TinyLine& tiny(int index) const { return mesh_.words(rank_of(index)).tiny[call_.stamp & 1]; }
  EarlyLine& early(int index) const { return mesh_.words(rank_of(index)).early[call_.stamp & 1]; }
  /// The slot of either line.
  int tiny_slot() const { return static_cast<int>(call_.stamp & 1); }
  /// Member `index`'s areas for a chunk.
  std::byte* input(int index, int64_t chunk) const { return mesh_.input(rank_of(index), slot(chunk)); }
  std::byte* result(int index, int64_t chunk) const { return mesh_.result(rank_of(index), slot(chunk)); }

  /// Stores an own word and rings all members, which may sleep on it.
  void publish(Word word, uint64_t value);
  /// The same for the own tiny line. Its payload has been written before.
  void publish_tiny();

  /// Whether member `index` has published at least `value`.
  bool seen(int index, Word word, uint64_t value);
  bool all_seen(Word word, uint64_t value);
  /// Whether all other members have shown their inputs to a batch of up to kTinyBytes.
  bool all_tiny_seen();
  /// The input of member `index` to a batch of up to kTinyBytes: in its early line or its tiny one. Returns null if it
  /// is in neither yet.
  const std::byte* tiny_input(int index) const;
  /// Whether member `index` has shown its input to this batch in its early line.
  bool shown_early(int index) const {
    return call_.key != 0 && early(index).stamp.load() == value(0) && early(index).key == call_.key;
  }
  /// If the own early line was meant for another batch with this stamp, its readers are the members of this one.
  void claim_wrong_guess();
  /// Whether no peer reads the area any more.
  bool free(Area area, int slot);
  /// From now until `value` the area belongs to the other members.
  void claim(Area area, int slot, uint64_t value) { mesh_.ledger().claim(area, slot, team_.ranks, value); }

  /// Blocking forms, with the failures of `Mesh::until`.
  Status wait(int index, Word word, uint64_t value, Deadline deadline);
  Status wait_all(Word word, uint64_t value, Deadline deadline);
  Status wait_free(Area area, int slot, Deadline deadline);

 private:
  bool rank_seen(int rank, Word word, uint64_t value);
  void ring_all();

  const Call& call_;
  const Team& team_;
  Mesh& mesh_;
};

}  // namespace rueda::core
