// Receives from any rank. A participant that wants a message from "any member" cannot propose, since it does not know
// the pair of ranks that the message runs in. It asks rank 0 with a probe, and rank 0 names a sender as soon as one has
// proposed a send of that name to it. The receiver then proposes an ordinary receive (participant_receives.cc).
//
//   take_probe ─▶ sender_for: is there one already? ─▶ answer
//                   └ none: the probe waits in `probes` ─▶ look_for_probe, at each proposal ─▶ answer
//
// Rank 0 commits to nothing with its answer: the send stays where it is, and the receive completes it. Messages of one
// sender keep their order because both ends count occurrences of the pair's key.
#include <algorithm>
#include <utility>

#include "runtime/agreement/arbiter_state.h"
#include "runtime/base/printable.h"
#include "runtime/diagnosis/set_words.h"

namespace rueda::core {

bool Arbiter::State::take_probe(int rank, WireReader& reader) {
  Probe probe;
  probe.number = reader.varint();
  probe.name = reader.text(kMaxNameBytes);
  probe.ranks = get_ranks(reader, config.size);
  if (!reader.ok() || !std::binary_search(probe.ranks.begin(), probe.ranks.end(), rank)) return false;
  if (ended) return true;
  // A message that is waiting answers the probe at once. Otherwise the probe waits in the order of arrival.
  Incoming& own = incoming[rank];
  if (const int sender = sender_for(own, rank, probe); sender >= 0) {
    answer(own, rank, probe, sender);
  } else {
    own.probes.push_back(std::move(probe));
  }
  return true;
}

/// The receive was given up, or the rank knows by now that no sender is left. The answer may have crossed this record.
bool Arbiter::State::take_drop_probe(int rank, WireReader& reader) {
  const uint64_t number = reader.varint();
  if (!reader.ok()) return false;
  const auto own = incoming.find(rank);
  if (own == incoming.end()) return true;
  std::erase_if(own->second.probes, [number](const Probe& probe) { return probe.number == number; });
  return true;
}

/// What the sender of a pair has submitted under the name and the receiver has not.
Arbiter::State::Unreceived Arbiter::State::unreceived(Set& pair, const std::string& name) const {
  // A pair that has ended delivers nothing more, whatever was proposed in it.
  Entry* entry = pair.ended ? nullptr : find_key(pair, name, OpKind::kSend);
  if (entry == nullptr) return Unreceived::kNothing;
  // What is in flight is the sender's count minus the receiver's: no message has a state of its own.
  const auto count = [&](int rank) {
    return entry->counts[static_cast<size_t>(pair.index[static_cast<size_t>(rank)])];
  };
  if (count(pair.sender) <= count(pair.receiver)) return Unreceived::kNothing;
  return entry->at(count(pair.receiver)).stage == Stage::kFailed ? Unreceived::kFailure : Unreceived::kMessage;
}

/// Returns a rank that has something for the probe, or -1. Senders take turns, so that a busy one starves no other. A
/// send that has failed is named only if there is no live message: the receiver has to hear of that failure too.
int Arbiter::State::sender_for(const Incoming& own, int rank, const Probe& probe) {
  const int sender = sender_of(Unreceived::kMessage, own, rank, probe);
  return sender >= 0 ? sender : sender_of(Unreceived::kFailure, own, rank, probe);
}

int Arbiter::State::sender_of(Unreceived what, const Incoming& own, int rank, const Probe& probe) {
  // From the rank behind the last sender to the end, then from the beginning up to it.
  const auto first = own.pairs.upper_bound(own.last_sender);
  for (const bool behind : {true, false}) {
    for (auto each = behind ? first : own.pairs.begin(); each != (behind ? own.pairs.end() : first); ++each) {
      Set* pair = find_set(each->second);
      const bool asked = std::binary_search(probe.ranks.begin(), probe.ranks.end(), each->first) && each->first != rank;
      if (asked && pair != nullptr && unreceived(*pair, probe.name) == what) return each->first;
    }
  }
  return -1;
}

void Arbiter::State::answer(Incoming& own, int rank, const Probe& probe, int sender) {
  // The next search begins behind this sender.
  own.last_sender = sender;
  record.clear();
  record.u8(static_cast<uint8_t>(VerdictKind::kProbed));
  record.varint(probe.number);
  record.varint(static_cast<uint64_t>(sender));
  tell_one(rank);
}

/// Called after `rank` has proposed something. If that is a send, the oldest probe that it fits gets its answer.
void Arbiter::State::look_for_probe(int rank, const Entry& entry) {
  Set& set = *entry.set;
  if (set.sender != rank) return;
  const auto found = incoming.find(set.receiver);
  if (found == incoming.end() || unreceived(set, entry.name) == Unreceived::kNothing) return;
  // One send answers one probe, the oldest that it fits. The next probe of the name waits for the next send.
  std::deque<Probe>& probes = found->second.probes;
  const auto probe = std::find_if(probes.begin(), probes.end(), [&](const Probe& each) {
    return each.name == entry.name && std::binary_search(each.ranks.begin(), each.ranks.end(), rank);
  });
  if (probe == probes.end()) return;
  answer(found->second, set.receiver, *probe, rank);
  probes.erase(probe);
}

/// A probe that no rank answers is a stall of the receiver: the report names the ranks that could have sent.
void Arbiter::State::find_stalled_probes(SteadyClock::time_point now, std::vector<Stalled>& found) {
  for (auto& [rank, own] : incoming) {
    for (Probe& probe : own.probes) {
      if (ranks[static_cast<size_t>(rank)].left) continue;
      if (probe.seen == SteadyClock::time_point{}) probe.seen = now;
      Stalled& stalled = found.emplace_back();
      stalled.set = kFirstPairSet + static_cast<SetId>(rank);  // no set has this id: a probe is in no set
      stalled.what = "send ";
      stalled.what += probe.name.empty() ? "without a name" : "\"" + printable(probe.name) + "\"";
      stalled.what += " from any rank to rank " + std::to_string(rank);
      if (probe.ranks.size() != ranks.size()) stalled.of = core::of_set({}, probe.ranks);
      stalled.age = now - probe.seen;
      stalled.have = {rank};
      for (const int each : probe.ranks) {
        if (each != rank && !ranks[static_cast<size_t>(each)].left) stalled.lack.push_back(each);
      }
    }
  }
}

}  // namespace rueda::core
