// Tells rank 0 of batches that run for long.
//
// A batch that runs for long is known to its members only, and rank 0 need not be one. So members tell it, at
// doubling ages: often enough to notice that one has ended, and rarely enough that a batch of hours costs a few frames.
#include "runtime/engine/late_batch.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/agreement/messages.h"
#include "runtime/base/wire.h"

namespace rueda::core {
namespace {

constexpr size_t kMostWhatBytes = 4096;  // a name, a set and an algorithm; longer names are cut

}  // namespace

std::vector<std::byte> encode_late(const LateBatch& batch) {
  WireWriter writer;
  writer.varint(batch.set);
  writer.varint(batch.number);
  writer.varint(static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(batch.age).count()));
  writer.text(batch.what.substr(0, kMostWhatBytes));
  put_ranks(writer, batch.ranks);
  return writer.take();
}

Result<LateBatch> decode_late(std::span<const std::byte> body, int rank, int size) {
  constexpr uint64_t kMostMicroseconds = 1ull << 50;  // 35 years, so that nanoseconds do not overflow
  WireReader reader(body);
  LateBatch batch;
  batch.set = static_cast<SetId>(reader.varint(UINT32_MAX));
  batch.number = reader.varint();
  batch.age = std::chrono::microseconds(reader.varint(kMostMicroseconds));
  batch.what = reader.text(kMostWhatBytes);
  batch.ranks = get_ranks(reader, size);
  if (reader.finished()) return batch;
  return Status(Code::kPeerLost, fmt::format("rank {} sent a report of a late batch that breaks the protocol", rank),
                rank);
}

/// Another record than last time: what ran before has ended, and the doubling begins anew.
bool LateWatch::due(uint64_t record, std::chrono::nanoseconds age) {
  if (std::exchange(record_, record) != record) next_ = warning_;
  if (age < next_) return false;
  while (next_ <= age) next_ *= 2;  // a look that came late skips what it missed
  return true;
}

/// Of several members' reports about one batch the oldest age counts: that member has waited longest.
void LateBatches::note(const LateBatch& batch, SteadyClock::time_point now) {
  Noted& noted = batches_[{batch.set, batch.number}];
  if (batch.age < noted.batch.age) return;
  noted = {batch, now};
}

std::vector<Stalled> LateBatches::stalled(SteadyClock::time_point now) {
  // A rank tells again when the age has doubled; five seconds more are for the way. No word by then: it has ended.
  std::erase_if(batches_, [now](const auto& each) {
    const Noted& noted = each.second;
    return now - noted.told > noted.batch.age * 2 + std::chrono::seconds(5);
  });
  std::vector<Stalled> found;
  for (const auto& [id, noted] : batches_) {
    Stalled stalled{.set = noted.batch.set, .what = noted.batch.what, .have = noted.batch.ranks};
    stalled.age = noted.batch.age;
    stalled.kind = StallKind::kRunning;
    stalled.batch = noted.batch.number;
    found.push_back(std::move(stalled));
  }
  return found;
}

}  // namespace rueda::core
