// Process sets: made when all members have asked for the same list, refused, ended, forgotten.
//
//   take_make_set ─all members asked─▶ make ─▶ kSet ─▶ in use ─tell_end─▶ ended ─all removed it─▶ forget_set
//        └─ two lists for one name, given up ─▶ refuse ─▶ kNoSet
//
// Members match by name, list and order of asking, so two sets of the same ranks are two sets. A name stands for one
// list as long as the epoch; ranks outside the list report their view of a name too, or a typing error in one rank's
// list would leave the others waiting for it. The design is in docs/decisions/0011-sets-by-verdict.md.
//
// Pairs, the sets of two ranks that messages run in, are made as soon as one side asks (0022-pairs.md).
#include <algorithm>
#include <utility>

#include "runtime/agreement/arbiter_state.h"
#include "runtime/base/rank_ranges.h"
#include "runtime/diagnosis/set_words.h"

namespace rueda::core {
namespace {

/// Without hosts: a list in a sentence about names says which ranks were asked for, not where they are.
std::string print_list(const std::vector<int>& ranks) { return rank_ranges(ranks, {}); }

std::string print_name(const std::string& name) {
  return name.empty() ? "a process set without a name" : "process set \"" + name + "\"";
}

}  // namespace

/// A request for a set. Its sender may be outside the list if the list has a name, and then only the name counts.
bool Arbiter::State::take_make_set(int rank, WireReader& reader) {
  NameAndRanks asked;
  asked.first = reader.text(kMaxNameBytes);
  asked.second = get_ranks(reader, config.size);
  if (!reader.ok()) return false;
  const bool member = std::binary_search(asked.second.begin(), asked.second.end(), rank);
  // Without a name the list says nothing to ranks outside it, so no correct rank sends it.
  if (!member && asked.first.empty()) return false;
  if (ended) return true;
  const auto pair = pair_of(asked.first);
  if (pair &&
      asked.second == std::vector<int>{std::min(pair->first, pair->second), std::max(pair->first, pair->second)}) {
    if (member) make_pair(asked, pair->first, pair->second);
    return true;
  }
  // Noted before anything else: a rank that later gives the name another list has to hear of this one.
  const bool spoiled = spoils(rank, asked);
  // A member has left. The goodbye is on its way to the asking rank, which then ends the set by itself.
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

/// Makes the pair for both ranks when the first of them asks: the other may come late or never. Its own request for the
/// pair, already on its way, finds it made and changes nothing.
void Arbiter::State::make_pair(const NameAndRanks& asked, int sender, int receiver) {
  const auto has_left = [this](int each) { return ranks[static_cast<size_t>(each)].left; };
  if (std::any_of(asked.second.begin(), asked.second.end(), has_left)) return;
  // Found by receiver and sender, because a probe asks for all senders of one receiver.
  std::map<int, SetId>& pairs = incoming[receiver].pairs;
  if (pairs.count(sender) != 0) return;
  Set& set = make(asked, 0);
  set.sender = sender;
  set.receiver = receiver;
  pairs.emplace(sender, set.members.id);
}

/// Returns how many sets of this name and list the rank has asked for before: the number that its answer will carry.
uint64_t Arbiter::State::count_asking(int rank, const NameAndRanks& asked) {
  SetKey& key = set_keys[asked];
  key.counts.resize(asked.second.size());
  const auto position = std::lower_bound(asked.second.begin(), asked.second.end(), rank);
  return key.counts[static_cast<size_t>(position - asked.second.begin())]++;
}

/// Notes which rank gave which list for the name. Returns true if the name stands for two lists now.
bool Arbiter::State::spoils(int rank, const NameAndRanks& asked) {
  if (asked.first.empty()) return false;
  SetName& name = set_names[asked.first];
  if (!name.spoiled.ok()) return true;
  const auto same = std::find_if(name.lists.begin(), name.lists.end(),
                                 [&](const SetName::Given& given) { return given.ranks == asked.second; });
  SetName::Given& given = same != name.lists.end() ? *same : name.lists.emplace_back(SetName::Given{asked.second, {}});
  const auto position = std::lower_bound(given.by.begin(), given.by.end(), rank);
  if (position == given.by.end() || *position != rank) given.by.insert(position, rank);
  if (name.lists.size() == 1) return false;
  spoil(asked.first);
  return true;
}

/// Two lists under one name: every set of that name fails, made or in the making, and so does every later request.
/// Which rank is wrong cannot be known, and a set that only some ranks use would hang. The lists are sorted by rank so
/// that the sentence is the same however the requests raced.
void Arbiter::State::spoil(const std::string& name) {
  SetName& known = set_names.at(name);
  std::sort(known.lists.begin(), known.lists.end(), [](const auto& a, const auto& b) { return a.by < b.by; });
  std::string sentence = print_name(name) + ": ";
  for (const SetName::Given& given : known.lists) {
    sentence += (&given == &known.lists.front() ? "" : ", ") + rank_ranges(given.by, config.names) + " asked for " +
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

/// Counts the request, and makes the set when it was the last one missing. If the set was refused meanwhile, the rank
/// hears that now.
void Arbiter::State::ask_for(int rank, const NameAndRanks& asked, uint64_t number) {
  SetKey& key = set_keys.at(asked);
  if (number - key.base == key.open.size()) key.open.emplace_back();
  Making& making = key.open[number - key.base];
  ++making.asked;
  if (!making.refused.ok()) tell_refusal(rank, asked, number, making.refused);
  if (making.asked < asked.second.size()) return;
  // Each member asked for earlier ones first, so the one that is complete now is the oldest.
  // A refused one ends here as well: each member has heard of the refusal when it asked.
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

/// Gives the set an id and tells its members. They find their own request for it by name, list and number.
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

/// Refuses one that is still in the making. Members that have asked for it are told now, the others when they ask
/// (`ask_for`): a participant could not match the refusal of a request that it has not made.
void Arbiter::State::refuse(const NameAndRanks& asked, SetKey& key, uint64_t number, const Status& why) {
  Making& making = key.open[number - key.base];
  if (!making.refused.ok()) return;
  making.refused = why;
  for (size_t member = 0; member < key.counts.size(); ++member) {
    if (key.counts[member] > number) tell_refusal(asked.second[member], asked, number, why);
  }
}

/// A member no longer wants a set that is still in the making: it removed the set, or gave up an operation in it. The
/// request for the set was counted before, because links keep order.
bool Arbiter::State::take_give_up_set(int rank, WireReader& reader) {
  NameAndRanks asked;
  asked.first = reader.text(kMaxNameBytes);
  asked.second = get_ranks(reader, config.size);
  const uint64_t number = reader.varint();
  const Status why = get_failure(reader, config.size);
  const auto position = std::lower_bound(asked.second.begin(), asked.second.end(), rank);
  if (!reader.ok() || position == asked.second.end() || *position != rank) return false;
  const auto found = set_keys.find(asked);
  if (found == set_keys.end()) return true;
  SetKey& key = found->second;
  if (number >= key.counts[static_cast<size_t>(position - asked.second.begin())]) return false;
  if (number < key.base || number - key.base >= key.open.size()) return true;  // made or refused
  // The sentence says which members asked and which did not: the reason is nearly always one that forgot.
  std::vector<int> have;
  std::vector<int> have_not;
  for (size_t member = 0; member < key.counts.size(); ++member) {
    (key.counts[member] > number ? have : have_not).push_back(asked.second[member]);
  }
  const std::string sentence = print_name(asked.first) + " of " + print_list(asked.second) + ", asked for by " +
                               rank_ranges(have, config.names) + " and not by " + rank_ranges(have_not, config.names) +
                               ": " + why.sentence();
  const Status named(why.code(), bounded_sentence(sentence), why.rank());
  refuse(asked, key, number, named);
  return true;
}

/// Issues what all members have proposed, whatever the credit: what was agreed before a goodbye runs. Nothing
/// else of the set will ever run, so half a group is dropped.
void Arbiter::State::end_set(Set& set) {
  if (set.ended) return;
  while (set.waiting()) issue_next(set);
  set.ended = true;
  for (Rank& each : ranks) {
    if (!each.group.empty() && each.group.front().entry->set == &set) each.group.clear();
  }
}

/// Ends a set for all members with one sentence. What they propose to it from now on is dropped here and fails there.
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

/// The first removal ends the set for the other members, and the last one frees it.
bool Arbiter::State::take_remove_set(int rank, Set& set) {
  char& removed = set.removed[static_cast<size_t>(set.index[static_cast<size_t>(rank)])];
  if (set.members.id == kGlobalSet || std::exchange(removed, char{1}) != 0) return false;
  tell_end(set, {Code::kMismatch, rank_name(rank) + " has removed " + set_words(set.name, set.members.ranks), rank});
  // Kept until every member has removed it, because their records may still name it.
  const bool by_all = std::find(set.removed.begin(), set.removed.end(), 0) == set.removed.end();
  if (by_all) forget_set(set);
  return true;
}

/// Frees an entry with all it has open. The other members of its groups are of the same set and are freed next; until
/// then they must not point to a group that is used again.
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

/// Frees a set that all members have removed. No record that names it can come any more.
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

/// Sets in the making whose list names a rank that has left will never be made. Their members know by the goodbye.
void Arbiter::State::drop_makings_with(int rank) {
  std::erase_if(set_keys, [&](const auto& each) {
    return ended || std::binary_search(each.first.second.begin(), each.first.second.end(), rank);
  });
}

}  // namespace rueda::core
