// What a rank says to the others of its host, and how it learns what they say: three words that only grow.
//
//   a batch of two chunks with stamp 100: chunk k is through a stage once the word of that stage is at least 101 + k
//
//   posted    100 ─▶ 101 ─▶ 102       inputs of chunk 0, then of chunk 1, may be read
//   reduced   100 ───▶ 101 ──▶ 102    the own result slice may be read; and the inputs have been read
//   done      100 ─────▶ 101 ──▶ 102  nothing of the peers is read any more
//
// Rank 0 gives every batch of the epoch a larger range of stamps than the last, so a word is never reset and one
// comparison ("at least") answers whether a peer is far enough, whatever batch it is in. The ledger remembers who read
// an area last and what value its `done` must reach before the area may be written again; no rank waits for its readers
// at the end of a batch.
#include "ops/cpu/lane_view.h"

#include <algorithm>

namespace rueda::core {

namespace {

using Word = LaneView::Word;

std::atomic<uint64_t>& word_of(LaneWords& words, Word word) {
  switch (word) {
    case Word::kPosted: return words.posted;
    case Word::kReduced: return words.reduced;
    case Word::kDone: break;
  }
  return words.done;
}

uint64_t& seen_of(SlotLedger::Seen& seen, Word word) {
  switch (word) {
    case Word::kPosted: return seen.posted;
    case Word::kReduced: return seen.reduced;
    case Word::kDone: break;
  }
  return seen.done;
}

/// A member that has published in the batch that starts at `stamp` is through with all earlier ones, because lanes run
/// their batches in order. So one look can free slots of batches in which its other words were never read.
void note_arrival(SlotLedger::Seen& seen, uint64_t stamp) {
  seen.reduced = std::max(seen.reduced, stamp);
  seen.done = std::max(seen.done, stamp);
}

}  // namespace

/// Stamps are the same on all ranks, so all compute the same slot without a word about it.
int LaneView::slot(int64_t chunk) const {
  return static_cast<int>((call_.stamp + static_cast<uint64_t>(chunk)) % static_cast<uint64_t>(slots()));
}

/// The store comes before the bells: a peer that a bell wakes must find the word.
void LaneView::publish(Word word, uint64_t value) {
  word_of(mesh_.words(mesh_.rank()), word).store(value);
  ring_all();
}

void LaneView::publish_tiny() {
  tiny(index()).stamp.store(value(0));
  ring_all();
}

void LaneView::ring_all() {
  for (const int rank : team_.ranks) {
    if (rank != mesh_.rank()) mesh_.ring(rank);
  }
}

/// Words only grow, so a value seen earlier may answer without touching the peer's cache line, which costs a round trip
/// between the cores.
bool LaneView::rank_seen(int rank, Word word, uint64_t value) {
  SlotLedger::Seen& seen = mesh_.ledger().seen(rank);
  uint64_t& last = seen_of(seen, word);
  if (last >= value) return true;
  last = std::max(last, word_of(mesh_.words(rank), word).load());
  const bool found = last >= value;
  if (!found) mesh_.waits_for(rank);
  if (last > call_.stamp) note_arrival(seen, call_.stamp);
  return found;
}

bool LaneView::seen(int index, Word word, uint64_t value) { return rank_seen(rank_of(index), word, value); }

bool LaneView::all_seen(Word word, uint64_t value) {
  for (const int rank : team_.ranks) {
    if (rank != mesh_.rank() && !rank_seen(rank, word, value)) return false;
  }
  return true;
}

/// Equal stamps are enough: a peer does not reuse either line before this rank is done with it. A peer that knew the
/// stamp, or had the batch, has left all earlier ones.
const std::byte* LaneView::tiny_input(int index) const {
  if (shown_early(index)) return early(index).payload;
  return tiny(index).stamp.load() == value(0) ? tiny(index).payload : nullptr;
}

bool LaneView::all_tiny_seen() {
  for (int i = 0; i < size(); ++i) {
    if (i == index()) continue;
    if (tiny_input(i) == nullptr) {
      mesh_.waits_for(rank_of(i));
      return false;
    }
    note_arrival(mesh_.ledger().seen(rank_of(i)), call_.stamp);
  }
  return true;
}

/// Members of this batch look at stamp and key of the line, and those of the other one never will: the stamp is taken.
void LaneView::claim_wrong_guess() {
  if (call_.key == 0 || early(index()).stamp.load(std::memory_order_relaxed) != value(0)) return;
  claim(Area::kEarly, tiny_slot(), value(0));
}

bool LaneView::free(Area area, int slot) {
  const SlotLedger::Use& use = mesh_.ledger().use(area, slot);
  for (const int rank : use.readers) {
    if (rank == mesh_.rank()) continue;
    // A rank that has reduced a chunk has read all its inputs, some time before it is done with the results.
    const bool through =
        rank_seen(rank, Word::kDone, use.value) || (area == Area::kInput && rank_seen(rank, Word::kReduced, use.value));
    if (!through) return false;
  }
  return true;
}

Status LaneView::wait(int index, Word word, uint64_t value, Deadline deadline) {
  if (seen(index, word, value)) return {};
  return mesh_.until([&] { return seen(index, word, value); }, deadline);
}

Status LaneView::wait_all(Word word, uint64_t value, Deadline deadline) {
  if (all_seen(word, value)) return {};
  return mesh_.until([&] { return all_seen(word, value); }, deadline);
}

Status LaneView::wait_free(Area area, int slot, Deadline deadline) {
  if (free(area, slot)) return {};
  return mesh_.until([&] { return free(area, slot); }, deadline);
}

}  // namespace rueda::core
