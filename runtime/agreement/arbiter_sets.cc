#include <algorithm>
#include <utility>

#include "runtime/agreement/arbiter_state.h"
#include "runtime/base/rank_ranges.h"
#include "runtime/diagnosis/set_words.h"

namespace rueda::core {
namespace {

std::string print_list(const std::vector<int>& ranks) { return rank_ranges(ranks, {}); }

std::string print_name(const std::string& name) {
  return name.empty() ? "a process set without a name" : "process set \"" + name + "\"";
}

}  // namespace

bool Arbiter::State::take_make_set(int rank, WireReader& reader) {
  NameAndRanks asked;
  asked.first = reader.text(kMaxNameBytes);
  asked.second = get_ranks(reader, config.size);
  if (!reader.ok()) return false;
  const bool member = std::binary_search(asked.second.begin(), asked.second.end(), rank);
  if (!member && asked.first.empty()) return false;
  if (ended) return true;
  const auto pair = pair_of(asked.first);
  if (pair &&
      asked.second == std::vector<int>{std::min(pair->first, pair->second), std::max(pair->first, pair->second)}) {
    if (member) make_pair(asked, pair->first, pair->second);
    return true;
  }
  const bool spoiled = spoils(rank, asked);  // whoever asks for another list later has to hear of this one
  // Who has not seen the goodbye will, and knows then what it means for the set.
  const auto has_left = [this](int each) { return ranks[static_cast<size_t>(each)].left; };
  if (std::any_of(asked.second.begin(), asked.second.end(), has_left)) return true;
  if (!member) return true;
  const uint64_t number = count_asking(rank, asked);
  if (spoiled) {
    tell_refusal(rank, asked, number, set_names.at(asked.first).spoiled);
  } else {
    ask_for(rank, asked, number);
  }
  return true;
}

/// At once, for both, when the first of them asks.
void Arbiter::State::make_pair(const NameAndRanks& asked, int sender, int receiver) {
  const auto has_left = [this](int each) { return ranks[static_cast<size_t>(each)].left; };
  if (std::any_of(asked.second.begin(), asked.second.end(), has_left)) return;
  std::map<int, SetId>& pairs = incoming[receiver].pairs;
  if (pairs.count(sender) != 0) return;
  Set& set = make(asked, 0);
  set.sender = sender;
  set.receiver = receiver;
  pairs.emplace(sender, set.members.id);
}

uint64_t Arbiter::State::count_asking(int rank, const NameAndRanks& asked) {
  SetKey& key = set_keys[asked];
  key.counts.resize(asked.second.size());
  const auto place = std::lower_bound(asked.second.begin(), asked.second.end(), rank);
  return key.counts[static_cast<size_t>(place - asked.second.begin())]++;
}

/// Whether the name stands for two lists, be it by this one.
bool Arbiter::State::spoils(int rank, const NameAndRanks& asked) {
  if (asked.first.empty()) return false;
  SetName& name = set_names[asked.first];
  if (!name.spoiled.ok()) return true;
  const auto same = std::find_if(name.lists.begin(), name.lists.end(),
                                 [&](const SetName::Given& given) { return given.ranks == asked.second; });
  SetName::Given& given = same != name.lists.end() ? *same : name.lists.emplace_back(SetName::Given{asked.second, {}});
  const auto place = std::lower_bound(given.by.begin(), given.by.end(), rank);
  if (place == given.by.end() || *place != rank) given.by.insert(place, rank);
  if (name.lists.size() == 1) return false;
  spoil(asked.first);
  return true;
}

void Arbiter::State::spoil(const std::string& name) {
  SetName& known = set_names.at(name);
  std::sort(known.lists.begin(), known.lists.end(), [](const auto& a, const auto& b) { return a.by < b.by; });
  std::string sentence = print_name(name) + ": ";
  for (const SetName::Given& given : known.lists) {
    sentence += (&given == &known.lists.front() ? "" : ", ") + rank_ranges(given.by, config.hosts) + " asked for " +
                print_list(given.ranks);
  }
  known.spoiled = Status(Code::kMismatch, bounded_sentence(sentence));
  known.lists.clear();
  for (auto each = set_keys.lower_bound({name, {}}); each != set_keys.end() && each->first.first == name; ++each) {
    SetKey& key = each->second;
    for (size_t i = 0; i < key.open.size(); ++i) refuse(each->first, key, key.base + i, known.spoiled);
    key.base += std::exchange(key.open, {}).size();
  }
  for (auto& [id, set] : sets) {
    if (set.name == name && !name.empty()) tell_end(set, known.spoiled);
  }
}

void Arbiter::State::ask_for(int rank, const NameAndRanks& asked, uint64_t number) {
  SetKey& key = set_keys.at(asked);
  if (number - key.base == key.open.size()) key.open.emplace_back();
  Making& making = key.open[number - key.base];
  ++making.asked;
  if (!making.refused.ok()) tell_refusal(rank, asked, number, making.refused);
  if (making.asked < asked.second.size()) return;
  // Whoever asked for a later one asked for this one before, so it is the oldest.
  const bool agreed = making.refused.ok();
  key.open.pop_front();
  ++key.base;
  if (agreed) make(asked, number);
}

void Arbiter::State::put_asking(const NameAndRanks& asked, uint64_t number) {
  record.text(asked.first);
  put_ranks(record, asked.second);
  record.varint(number);
}

Arbiter::State::Set& Arbiter::State::make(const NameAndRanks& asked, uint64_t number) {
  Set& set = add_set(arrange_set(next_set, asked.second, config.host_of));
  set.name = asked.first;
  record.clear();
  record.u8(static_cast<uint8_t>(VerdictKind::kSet));
  record.varint(set.members.id);
  put_asking(asked, number);
  tell(set, 0);
  return set;
}

void Arbiter::State::tell_refusal(int rank, const NameAndRanks& asked, uint64_t number, const Status& why) {
  record.clear();
  record.u8(static_cast<uint8_t>(VerdictKind::kNoSet));
  put_asking(asked, number);
  put_failure(record, why);
  tell_one(rank);
}

/// An open one. Who has asked for it is told now, who asks later then.
void Arbiter::State::refuse(const NameAndRanks& asked, SetKey& key, uint64_t number, const Status& why) {
  Making& making = key.open[number - key.base];
  if (!making.refused.ok()) return;
  making.refused = why;
  for (size_t member = 0; member < key.counts.size(); ++member) {
    if (key.counts[member] > number) tell_refusal(asked.second[member], asked, number, why);
  }
}

bool Arbiter::State::take_give_up_set(int rank, WireReader& reader) {
  NameAndRanks asked;
  asked.first = reader.text(kMaxNameBytes);
  asked.second = get_ranks(reader, config.size);
  const uint64_t number = reader.varint();
  const Status why = get_failure(reader, config.size);
  const auto place = std::lower_bound(asked.second.begin(), asked.second.end(), rank);
  if (!reader.ok() || place == asked.second.end() || *place != rank) return false;
  const auto found = set_keys.find(asked);
  if (found == set_keys.end()) return true;
  SetKey& key = found->second;
  if (number >= key.counts[static_cast<size_t>(place - asked.second.begin())]) return false;
  if (number < key.base || number - key.base >= key.open.size()) return true;  // made or refused
  std::vector<int> have;
  std::vector<int> have_not;
  for (size_t member = 0; member < key.counts.size(); ++member) {
    (key.counts[member] > number ? have : have_not).push_back(asked.second[member]);
  }
  const std::string sentence = print_name(asked.first) + " of " + print_list(asked.second) + ", asked for by " +
                               rank_ranges(have, config.hosts) + " and not by " + rank_ranges(have_not, config.hosts) +
                               ": " + why.sentence();
  const Status named(why.code(), bounded_sentence(sentence), why.rank());
  refuse(asked, key, number, named);
  return true;
}

/// What all members have proposed runs, whatever the credit. Nothing else of the set ever will.
void Arbiter::State::end_set(Set& set) {
  if (set.ended) return;
  while (set.waiting()) issue_next(set);
  set.ended = true;
  for (Rank& each : ranks) {
    if (!each.group.empty() && each.group.front().entry->set == &set) each.group.clear();
  }
}

void Arbiter::State::tell_end(Set& set, const Status& why) {
  if (set.ended) return;
  end_set(set);
  drop_ended_from_rest();
  record.clear();
  record.u8(static_cast<uint8_t>(VerdictKind::kEndSet));
  record.varint(set.members.id);
  put_failure(record, why);
  tell(set, 0);
}

bool Arbiter::State::take_remove_set(int rank, Set& set) {
  char& removed = set.removed[static_cast<size_t>(set.index[static_cast<size_t>(rank)])];
  if (set.members.id == kGlobalSet || std::exchange(removed, char{1}) != 0) return false;
  tell_end(set, {Code::kMismatch, rank_name(rank) + " has removed " + set_words(set.name, set.members.ranks), rank});
  const bool by_all = std::find(set.removed.begin(), set.removed.end(), 0) == set.removed.end();
  if (by_all) forget_set(set);
  return true;
}

void Arbiter::State::forget_entry(Entry& entry) {
  for (Occurrence& occurrence : entry.open) {
    if (occurrence.group == nullptr) continue;
    Group& group = *occurrence.group;
    for (const Ref& ref : group.members) ref.entry->at(ref.occurrence).group = nullptr;
    release(group);
  }
  entry.open.clear();
  by_id.erase(entry.id);
  free_entries.push_back(&entry);
}

void Arbiter::State::forget_set(Set& set) {
  record.clear();
  record.u8(static_cast<uint8_t>(VerdictKind::kForgetSet));
  record.varint(set.members.id);
  tell(set, 0);
  for (Entry* entry : set.unnamed) {
    if (entry != nullptr) forget_entry(*entry);
  }
  for (const auto& [name, entry] : set.named) forget_entry(*entry);
  for (Entry* entry : set.evicted) forget_entry(*entry);
  sets.erase(set.members.id);
}

void Arbiter::State::drop_makings_with(int rank) {
  std::erase_if(set_keys, [&](const auto& each) {
    return ended || std::binary_search(each.first.second.begin(), each.first.second.end(), rank);
  });
}

}  // namespace rueda::core
