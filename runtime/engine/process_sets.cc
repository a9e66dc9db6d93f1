// Gives process sets their numbers and checks each operation against its set.
//
// Numbers are this rank's own and are given at once; agreement makes the sets behind them later. A number is therefore
// checked here against what this rank has asked for, before any other rank knows of it. Each entry counts the
// operations in flight, so that a set is removed only when none is left.
//
//     0                the set of all ranks; it has no entry, and most operations take no lock for it
//     1, 2, ...        sets that callers add
//     kFirstPairSet..  pairs for sends; callers cannot name them
#include "runtime/engine/process_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "runtime/agreement/messages.h"
#include "runtime/agreement/set_members.h"
#include "runtime/diagnosis/set_words.h"

namespace rueda::core {
namespace {

Status wrong(std::string why) { return {Code::kInvalidArgument, std::move(why)}; }

}  // namespace

/// Signed, because a C caller may have passed a negative number.
Status ProcessSets::unknown(SetId number) {
  return wrong(fmt::format("process set {} does not exist", static_cast<int32_t>(number)));
}

/// Rank and number stand in the sentence: a program often computes the number.
Status ProcessSets::no_member(SetId number) const {
  return wrong(fmt::format("rank {} is not a member of process set {}", rank_, number));
}

/// Sorts `ranks`: the checks need it, and agreement compares lists.
Status ProcessSets::check(std::vector<int>& ranks, const std::string& name) const {
  if (ranks.empty()) return wrong("a process set needs at least one rank");
  std::sort(ranks.begin(), ranks.end());
  // Sorted, so the two ends tell whether any rank is outside the job.
  for (const int rank : {ranks.front(), ranks.back()}) {
    if (rank < 0 || rank >= size_) {
      return wrong(fmt::format("rank {} of a process set is not in this job; its ranks are 0 to {}", rank, size_ - 1));
    }
  }
  const auto twice = std::adjacent_find(ranks.begin(), ranks.end());
  if (twice != ranks.end()) return wrong(fmt::format("rank {} appears twice in one process set", *twice));
  if (name.size() > kMaxNameBytes) {
    return wrong(fmt::format("the name \"{}...\" of a process set has {} bytes; the limit is {}", name.substr(0, 32),
                             name.size(), kMaxNameBytes));
  }
  // Members match sets by name, so two sets of one rank must not share one. Unnamed sets match by their ranks.
  for (const auto& [number, entry] : sets_) {
    if (name.empty() || entry.name != name) continue;
    return wrong(
        fmt::format("process set {} already has the name \"{}\"; remove it first or use another name", number, name));
  }
  return {};
}

/// Numbers grow and are never used twice: a number of a removed set stays an error.
Result<SetId> ProcessSets::add(std::vector<int>& ranks, const std::string& name) {
  MutexLock lock(mutex_);
  RUEDA_RETURN_IF_ERROR(check(ranks, name));
  const SetId number = next_++;
  sets_.emplace(number, Entry{ranks, name, std::binary_search(ranks.begin(), ranks.end(), rank_), false, 0});
  return number;
}

SetId ProcessSets::add_lost(std::string why) {
  MutexLock lock(mutex_);
  lost_.emplace(next_, std::move(why));
  return next_++;
}

Status ProcessSets::absent(SetId number) const {
  const auto found = lost_.find(number);
  return found == lost_.end() ? unknown(number) : wrong(found->second);
}

/// A pair's number follows from its two ranks, so asking twice gives the same one.
std::pair<SetId, bool> ProcessSets::add_pair(int sender, int receiver) {
  MutexLock lock(mutex_);
  const SetId number = pair_number(rank_, sender, receiver);
  std::vector<int> ranks{std::min(sender, receiver), std::max(sender, receiver)};
  return {number, sets_.emplace(number, Entry{std::move(ranks), pair_name(sender, receiver), true, false, 0}).second};
}

/// Its maker has not told the number to anyone. An operation of a caller that guesses it finds the set gone (`leave`).
void ProcessSets::take_back(SetId number) {
  MutexLock lock(mutex_);
  sets_.erase(number);
}

/// A pair's set belongs to the library, so for callers it does not exist.
Status ProcessSets::remove(SetId number) {
  if (number >= kFirstPairSet) return unknown(number);
  if (number == kGlobalSet) return wrong("process set 0 holds all ranks and cannot be removed");
  MutexLock lock(mutex_);
  const auto found = sets_.find(number);
  if (found == sets_.end()) return lost_.erase(number) != 0 ? Status() : unknown(number);
  if (found->second.in_flight != 0) {
    return wrong(
        fmt::format("process set {} has {} operations of this rank in flight; wait for them before you remove it",
                    number, found->second.in_flight));
  }
  sets_.erase(found);
  return {};
}

/// The first check of a call. `enter` checks again, because the set may be removed in between.
Status ProcessSets::check_member(SetId number) const {
  if (number == kGlobalSet) return {};
  MutexLock lock(mutex_);
  const auto found = sets_.find(number);
  if (found == sets_.end()) return absent(number);
  return found->second.member ? Status() : no_member(number);
}

/// For a second join as well as for any other operation.
Status ProcessSets::has_joined(SetId number) const {
  return wrong(fmt::format("rank {} has joined process set {} and takes no other part in it until all members have",
                           rank_, number));
}

/// After a join nothing enters until it leaves, except for sends: a message needs its two ranks and no other.
Status ProcessSets::enter(SetId number, OpKind kind) {
  const bool joins = kind == OpKind::kJoin;
  const bool sends = kind == OpKind::kSend;
  if (number == kGlobalSet) {
    // No lock: the only state of set 0 is whether this rank has joined.
    if (sends) return {};
    const bool joined = joins ? all_joined_.exchange(true) : all_joined_.load();
    return joined ? has_joined(number) : Status();
  }
  MutexLock lock(mutex_);
  const auto found = sets_.find(number);
  if (found == sets_.end()) return absent(number);
  if (number >= kFirstPairSet && !sends) return unknown(number);
  if (!found->second.member) return no_member(number);
  if (found->second.joined && !sends) return has_joined(number);
  if (joins) found->second.joined = true;
  ++found->second.in_flight;
  return {};
}

/// Tensors of two devices would be fused into one batch, and peers expect one device of a rank.
Status ProcessSets::use_device(SetId number, const DeviceFunctions& device, int32_t index) {
  MutexLock lock(mutex_);
  const auto [declared, first] = device_indices_.try_emplace({number, device.kind}, index);
  if (first || declared->second == index) return {};
  return wrong(
      fmt::format("rank {} uses device {} number {} in process set {}, and this tensor is on number {}; a rank "
                  "uses one device in a set: make a process set for the other",
                  rank_, device.name, declared->second, number, index));
}

/// The set may be gone: see `take_back`.
void ProcessSets::leave(SetId number, OpKind kind) {
  if (number == kGlobalSet) {
    if (kind == OpKind::kJoin) all_joined_.store(false);
    return;
  }
  MutexLock lock(mutex_);
  const auto found = sets_.find(number);
  if (found == sets_.end()) return;
  --found->second.in_flight;
  if (kind == OpKind::kJoin) found->second.joined = false;
}

/// Set 0 is made up on the spot: it has no entry.
Result<std::vector<int>> ProcessSets::ranks(SetId number) const {
  if (number == kGlobalSet) {
    std::vector<int> all(static_cast<size_t>(size_));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  MutexLock lock(mutex_);
  const auto found = sets_.find(number);
  if (found == sets_.end()) return absent(number);
  if (number >= kFirstPairSet) return unknown(number);
  return found->second.ranks;
}

/// Set 0 has no entry, so it is not named in sentences.
std::string ProcessSets::of_set(SetId number) const {
  MutexLock lock(mutex_);
  const auto found = sets_.find(number);
  return found == sets_.end() ? "" : core::of_set(found->second.name, found->second.ranks);
}

/// For dumps: a copy, so that the mutex is not held while it is written.
std::vector<DumpedSet> ProcessSets::list() const {
  MutexLock lock(mutex_);
  std::vector<DumpedSet> all;
  for (const auto& [number, entry] : sets_) all.push_back({number, entry.name, entry.ranks});
  return all;
}

/// Asks about any rank, while `check_member` asks about this one: a root must be a member.
bool ProcessSets::contains(SetId number, int rank) const {
  if (number == kGlobalSet) return rank >= 0 && rank < size_;
  MutexLock lock(mutex_);
  const auto found = sets_.find(number);
  return found != sets_.end() && std::binary_search(found->second.ranks.begin(), found->second.ranks.end(), rank);
}

}  // namespace rueda::core
