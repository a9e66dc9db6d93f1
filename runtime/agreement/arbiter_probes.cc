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
  Incoming& own = incoming[rank];
  if (const int sender = sender_for(own, rank, probe); sender >= 0) {
    answer(own, rank, probe, sender);
  } else {
    own.probes.push_back(std::move(probe));
  }
  return true;
}

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
  Entry* entry = pair.ended ? nullptr : find_key(pair, name, OpKind::kSend);
  if (entry == nullptr) return Unreceived::kNothing;
  const auto count = [&](int rank) {
    return entry->counts[static_cast<size_t>(pair.index[static_cast<size_t>(rank)])];
  };
  if (count(pair.sender) <= count(pair.receiver)) return Unreceived::kNothing;
  return entry->at(count(pair.receiver)).stage == Stage::kFailed ? Unreceived::kFailure : Unreceived::kMessage;
}

/// Who has something for the probe; -1: nobody. Senders take turns, those behind who have given theirs up.
int Arbiter::State::sender_for(const Incoming& own, int rank, const Probe& probe) {
  const int sender = sender_of(Unreceived::kMessage, own, rank, probe);
  return sender >= 0 ? sender : sender_of(Unreceived::kFailure, own, rank, probe);
}

int Arbiter::State::sender_of(Unreceived what, const Incoming& own, int rank, const Probe& probe) {
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
  own.last_sender = sender;
  record.clear();
  record.u8(static_cast<uint8_t>(VerdictKind::kProbed));
  record.varint(probe.number);
  record.varint(static_cast<uint64_t>(sender));
  tell_one(rank);
}

/// `rank` has submitted something: if it is a send, somebody may be waiting for one from any rank.
void Arbiter::State::look_for_probe(int rank, const Entry& entry) {
  Set& set = *entry.set;
  if (set.sender != rank) return;
  const auto found = incoming.find(set.receiver);
  if (found == incoming.end() || unreceived(set, entry.name) == Unreceived::kNothing) return;
  std::deque<Probe>& probes = found->second.probes;
  const auto probe = std::find_if(probes.begin(), probes.end(), [&](const Probe& each) {
    return each.name == entry.name && std::binary_search(each.ranks.begin(), each.ranks.end(), rank);
  });
  if (probe == probes.end()) return;
  answer(found->second, set.receiver, *probe, rank);
  probes.erase(probe);
}

void Arbiter::State::find_stalled_probes(SteadyClock::time_point now, std::vector<Stalled>& found) {
  for (auto& [rank, own] : incoming) {
    for (Probe& probe : own.probes) {
      if (ranks[static_cast<size_t>(rank)].left) continue;
      if (probe.seen == SteadyClock::time_point{}) probe.seen = now;
      Stalled& stalled = found.emplace_back();
      stalled.set = kFirstPairSet + static_cast<SetId>(rank);  // of no set that has an id
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
