// Frames that come and go through rank 0's own relay (relay.h). One relayed frame holds records of many ranks:
//
//   epoch { 0     bytes(steps) }       all members of each id's set have proposed it: rank 0's relay is the root
//   epoch { ranks bytes(records) }     exactly these ranks sent these records
//
// Each is unfolded into what the ranks would have sent by themselves, so matching never knows that a tree exists.
#include "runtime/agreement/arbiter_state.h"

namespace rueda::core {

/// Queues the scratch record once, with its audience in front: the relays copy it where the tree branches (`Relay`).
void Arbiter::State::address(uint64_t audience, size_t requests) {
  WireWriter& writer = addressed.reserve(record.size() + kMaxAudienceBytes, requests);
  writer.varint(audience);
  writer.bytes(record.view());
}

std::vector<std::byte> Arbiter::take_addressed() { return state_->addressed.take(); }

Status Arbiter::receive_relayed(std::span<const std::byte> frame) {
  WireReader reader(frame);
  bool taken = frame.size() <= kMaxFrameBytes && reader.varint() == state_->config.epoch && reader.ok();
  while (taken && reader.left() != 0) taken = state_->take_relayed(reader) && reader.ok();
  if (taken) return {};
  // The relays check what they merge, so the rank at hand is the best that can be named here.
  const int sender = state_->relayed_from;
  return {Code::kPeerLost,
          state_->rank_name(sender) + " sent proposals that do not belong to this epoch or break the protocol", sender};
}

/// Takes a step by ids that all ranks below have made, once for each member of the id's set. Steps with other metadata
/// (tag 2) are never merged.
bool Arbiter::State::take_merged_step(WireReader& reader, uint64_t& next) {
  const uint64_t word = reader.varint();
  const uint64_t first = next + unzigzag(word >> 2);
  const uint64_t more = (word & 3) == 1 ? reader.varint(kMaxRequests) : 0;
  if (!reader.ok() || (word & 3) > 1) return false;
  next = first + more + 1;
  for (uint64_t id = first; id != next; ++id) {
    const Entry* entry = by_id.find(id);
    if (entry == nullptr) return false;
    for (const int rank : entry->set->members.ranks) {
      relayed_from = rank;
      if (!take_by_id(rank, id)) return false;
    }
  }
  return true;
}

/// Takes one block of a relayed frame: steps that all have made, or records of certain ranks.
bool Arbiter::State::take_relayed(WireReader& reader) {
  // A rank list begins with the number of its ranges, at least 1, so a 0 in its position means "all".
  WireReader ahead = reader;
  std::vector<int> from;
  const bool merged = ahead.varint() == 0;
  if (merged) {
    reader = ahead;
  } else {
    from = get_ranks(reader, config.size);
  }
  const std::span<const std::byte> records = reader.bytes(kMaxFrameBytes);
  if (!reader.ok()) return false;
  if (merged) {
    WireReader steps(records);
    for (uint64_t next = 0; steps.left() != 0;) {
      if (!take_merged_step(steps, next) || !steps.ok()) return false;
    }
    return true;
  }
  for (const int rank : from) {
    WireReader own(records);
    relayed_from = rank;
    // In a block each rank's steps start from id 0: the relay has re-coded them, and no link's history applies.
    ranks[static_cast<size_t>(rank)].next_id = 0;
    while (own.left() != 0) {
      if (!take_record(rank, own) || !own.ok()) return false;
    }
  }
  return true;
}

}  // namespace rueda::core
