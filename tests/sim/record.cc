// What must be true of a simulated job, whatever the interleaving. `Joints` puts together what ranks submitted for one
// occurrence, and occurrences that some rank grouped. The checks then compare what each rank saw with what all
// submitted: an error needs a reason, a batch needs all members, and no operation may run on one rank and fail on
// another.
#include "tests/sim/record.h"

#include <algorithm>
#include <functional>
#include <set>

#include "runtime/agreement/neutral.h"
#include "runtime/agreement/planner.h"

namespace rueda::sim {
namespace {

using core::Code;
using core::Metadata;
using core::OpKind;

using Occurrence = std::pair<std::string, uint64_t>;  ///< key, number

/// One occurrence over all ranks, and the occurrences that complete with it because some rank grouped them.
struct Joint {
  core::SetId set = 0;
  std::vector<std::pair<int, const Ticket*>> tickets;
  Occurrence leader;
  size_t excused = 0;  ///< members that had joined
};

class Joints {
 public:
  Joints(const Job& job, const std::vector<RankRecord>& ranks) {
    for (const RankRecord& record : ranks) removed_.insert(record.removed.begin(), record.removed.end());
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      std::map<uint64_t, Occurrence> first_of_unit;
      for (const auto& [id, ticket] : ranks[rank].tickets) {
        if (ticket.refused || ticket.held) continue;
        const Occurrence self{key_of(ticket.request), ticket.occurrence};
        Joint& joint = joints_.try_emplace(self, Joint{ticket.request.set, {}, self, 0}).first->second;
        joint.tickets.emplace_back(static_cast<int>(rank), &ticket);
        const auto [first, is_first] = first_of_unit.try_emplace(ticket.unit, self);
        if (!is_first) join(first->second, self);
      }
    }
    for (auto& [key, joint] : joints_) {
      for (const int rank : members_of(job, joint.set).ranks) {
        joint.excused += is_excused(ranks[static_cast<size_t>(rank)], joint.set, key.first, key.second) ? 1 : 0;
      }
    }
  }
  const std::map<Occurrence, Joint>& all() const { return joints_; }
  bool removed(core::SetId set) const { return removed_.count(set) != 0; }
  Occurrence leader(const Occurrence& of) const {
    const Occurrence& up = joints_.at(of).leader;
    return up == of ? of : leader(up);
  }
  /// Whether `holds` is true for some occurrence that completes with `of`.
  bool any(const Occurrence& of, const std::function<bool(const Joint&)>& holds) const {
    const Occurrence mine = leader(of);
    return std::any_of(joints_.begin(), joints_.end(),
                       [&](const auto& each) { return leader(each.first) == mine && holds(each.second); });
  }
  bool any_of_set(core::SetId set, const std::function<bool(const Joint&)>& holds) const {
    return std::any_of(joints_.begin(), joints_.end(),
                       [&](const auto& each) { return each.second.set == set && holds(each.second); });
  }

 private:
  void join(const Occurrence& a, const Occurrence& b) { joints_.at(leader(a)).leader = leader(b); }
  std::map<Occurrence, Joint> joints_;
  std::set<core::SetId> removed_;
};

bool differs(const Joint& joint) {
  return std::any_of(joint.tickets.begin(), joint.tickets.end(), [&](const auto& each) {
    return !each.second->request.metadata.agrees_with(joint.tickets.front().second->request.metadata);
  });
}

/// Whether every member has a tensor that the others can read.
bool is_shared(const Joint& joint) {
  return joint.excused == 0 && std::all_of(joint.tickets.begin(), joint.tickets.end(), [](const auto& each) {
           return each.second->request.metadata.memory == core::MemoryKind::kShared;
         });
}

/// Whether a member had joined that has nothing to contribute, or may be the only one to receive anything.
bool unfit_for_joined(const Joint& joint) {
  const Metadata& metadata = joint.tickets.front().second->request.metadata;
  return joint.excused != 0 && (!core::why_no_neutral(metadata).empty() || metadata.root >= 0);
}

bool abandoned(const Joint& joint) {
  return std::any_of(joint.tickets.begin(), joint.tickets.end(),
                     [](const auto& each) { return each.second->abandoned; });
}

bool refusable(const Joint& joint) {
  const Metadata& metadata = joint.tickets.front().second->request.metadata;
  return metadata.dtype == core::Dtype::kU8 && metadata.op == core::ReduceOp::kProduct;
}

/// Whether the whole set has failed, and not this operation.
bool ends_set(const core::Status& error) {
  const bool kept = error.code() == Code::kMismatch || error.code() == Code::kTimeout;
  return kept && error.sentence().find(" needs it") != std::string::npos;
}

std::string name(const Occurrence& occurrence) { return occurrence.first + "#" + std::to_string(occurrence.second); }

/// Why this error may have come, or the sentence that says that it may not.
std::string check_error(const Joints& joints, const Job& job, const Occurrence& key, const core::Status& error) {
  const core::SetId set = joints.all().at(key).set;
  if (ends_set(error)) {
    const AddedSet* added = added_set(job, set);
    const bool given_up = joints.any_of_set(set, abandoned);
    const bool may = added != nullptr && (added->spoiled || joints.removed(set) || given_up);
    return may ? "" : name(key) + ": its set ended for no reason: " + error.sentence();
  }
  switch (error.code()) {
    case Code::kMismatch: {
      const bool may = joints.any(key, differs) || joints.any(key, unfit_for_joined);
      return may ? "" : name(key) + ": a mismatch where all sent the same: " + error.sentence();
    }
    case Code::kTimeout: return joints.any(key, abandoned) ? "" : name(key) + ": a timeout that no rank asked for";
    case Code::kInvalidArgument:
      return joints.any(key, refusable) ? "" : name(key) + ": refused although an algorithm takes it";
    case Code::kShutDown:
    case Code::kPeerLost: return {};
    default: return name(key) + ": unexpected error " + error.sentence();
  }
}

std::string check_joint(const Joints& joints, const Job& job, const Occurrence& key, const Joint& joint, bool death) {
  const Outcome* batch = nullptr;
  const core::Status* error = nullptr;
  for (const auto& [rank, ticket] : joint.tickets) {
    if (!ticket->outcome) continue;  // of a dead rank
    const Outcome& outcome = *ticket->outcome;
    if (outcome.batch_set >= 0) {
      if (batch != nullptr && batch->batch != outcome.batch) return name(key) + ": in different batches";
      batch = &outcome;
      continue;
    }
    if (std::string why = check_error(joints, job, key, outcome.error); !why.empty()) return why;
    const bool over = outcome.error.code() == Code::kShutDown || outcome.error.code() == Code::kPeerLost;
    if (over) {
      if (outcome.error.code() == Code::kPeerLost && !death) return name(key) + ": lost a peer that lives";
      continue;
    }
    if (ends_set(outcome.error)) continue;
    if (error != nullptr && error->sentence() != outcome.error.sentence()) return name(key) + ": different sentences";
    error = &outcome.error;
  }
  if (batch == nullptr) return {};
  if (error != nullptr) return name(key) + ": runs on some ranks and fails on others: " + error->sentence();
  if (differs(joint)) return name(key) + ": runs with different metadata";
  if (joint.tickets.size() + joint.excused != members_of(job, joint.set).ranks.size()) {
    return name(key) + ": runs without a member";
  }
  if (batch->in_place != is_shared(joint)) {
    return name(key) + (batch->in_place ? ": runs in place, and some rank's tensor is private"
                                        : ": does not run in place, and every rank's tensor is shared");
  }
  const bool fell_out = std::any_of(joint.tickets.begin(), joint.tickets.end(), [](const auto& each) {
    return each.second->outcome && each.second->outcome->batch_set < 0;
  });
  return fell_out && !death ? name(key) + ": runs on some ranks and is shut down on others" : "";
}

/// Whether joined members are told the size that the others submitted.
bool tells_extent(const core::BatchEvent& event, size_t index, const Metadata& metadata) {
  if (event.contributors == 0) return event.counts.empty();
  const int64_t count = metadata.kind == OpKind::kBarrier ? 0 : metadata.count();
  if (metadata.kind != OpKind::kReducescatter) return event.counts.at(index) == count && event.rows.empty();
  const int64_t row = count == 0 || metadata.shape.empty() ? 1 : count / metadata.shape.front();
  return event.counts.at(index) == count && event.rows.at(index) == row;
}

std::string check_batch(const Job& job, const RankRecord& record, const SeenBatch& seen) {
  uint64_t bytes = 0;
  std::vector<const core::Request*> requests;
  std::set<uint64_t> units;
  const std::string where = "batch " + std::to_string(seen.event.number) + " of set " + std::to_string(seen.event.set);
  for (size_t i = 0; i < seen.event.tickets.size(); ++i) {
    if (seen.event.tickets[i] == core::kNoTicket) continue;
    const Ticket& ticket = record.tickets.at(seen.event.tickets[i]);
    requests.push_back(&ticket.request);
    units.insert(ticket.unit);
    const Metadata& metadata = ticket.request.metadata;
    if (!tells_extent(seen.event, i, metadata)) return where + " tells joined members another size";
    bytes += static_cast<uint64_t>(metadata.count()) * core::size_of(metadata.dtype);
  }
  if (requests.empty()) return {};
  const Metadata& first = requests.front()->metadata;
  if (seen.event.tickets.front() != core::kNoTicket && !seen.event.metadata.agrees_with(first))
    return where + " has other metadata than its first tensor";
  for (const core::Request* request : requests) {
    if (request->set != seen.event.set) return where + " holds a tensor of another set";
    if (!(core::FuseKey(request->metadata) == core::FuseKey(first))) return where + " fuses what differs";
  }
  if (requests.size() == 1) return {};
  if (first.kind == OpKind::kBarrier) return where + " fuses a barrier";
  const uint64_t threshold = job.config.fusion_threshold_bytes;
  return threshold == 0 || bytes > threshold ? where + " is over the fusion threshold" : "";
}

/// A rank that has joined does not know the operations that it takes no part in.
bool same_operations(const SeenBatch& a, const SeenBatch& b) {
  if (a.operations.size() != b.operations.size()) return false;
  for (size_t i = 0; i < a.operations.size(); ++i) {
    const bool known = !a.operations[i].first.empty() && !b.operations[i].first.empty();
    if (known && a.operations[i] != b.operations[i]) return false;
  }
  return true;
}

/// The sequence of one rank's batches: numbers without gaps, stamps that grow.
std::string check_sequence(const Job& job, const RankRecord& record) {
  std::map<core::SetId, uint64_t> numbers;
  uint64_t stamp = 0;
  for (const SeenBatch& seen : record.batches) {
    if (seen.event.number != numbers[seen.event.set]++) return "a batch number is missing";
    if (seen.event.stamp < stamp) return "stamps overlap or go back";
    stamp = seen.event.stamp + seen.event.choice.stamps;
    if (std::string why = check_batch(job, record, seen); !why.empty()) return why;
  }
  return {};
}

}  // namespace

std::string key_of(const core::Request& request) {
  return std::to_string(request.set) + "/" +
         (request.name.empty() ? std::string("#") + core::name_of(request.metadata.kind) : request.name.str());
}

bool is_joined(const RankRecord& record, core::SetId set) {
  return std::any_of(record.joins.begin(), record.joins.end(),
                     [set](const Join& join) { return join.set == set && !join.ended; });
}

bool is_excused(const RankRecord& record, core::SetId set, const std::string& key, uint64_t occurrence) {
  const auto skipped = record.skipped.find(key);
  if (skipped != record.skipped.end() &&
      std::find(skipped->second.begin(), skipped->second.end(), occurrence) != skipped->second.end()) {
    return true;
  }
  const auto submitted = record.submitted.find(key);
  // A join that failed was the last thing in that set.
  const bool joined = std::any_of(record.joins.begin(), record.joins.end(),
                                  [set](const Join& join) { return join.set == set && join.last < 0; });
  return joined && (submitted == record.submitted.end() || occurrence >= submitted->second);
}

std::string check_joins(const Job& job, const std::vector<RankRecord>& ranks) {
  std::map<std::pair<core::SetId, size_t>, int> last;
  for (const RankRecord& record : ranks) {
    std::map<core::SetId, size_t> numbers;
    for (const Join& join : record.joins) {
      const size_t number = numbers[join.set]++;
      if (join.last < 0) continue;
      const std::vector<int>& members = members_of(job, join.set).ranks;
      const std::string where = "join " + std::to_string(number) + " of set " + std::to_string(join.set);
      if (std::find(members.begin(), members.end(), join.last) == members.end()) return where + " names no member";
      if (last.try_emplace({join.set, number}, join.last).first->second != join.last) return where + " names two ranks";
    }
  }
  return {};
}

std::string check_batches(const Job& job, const std::vector<RankRecord>& ranks) {
  std::map<std::pair<core::SetId, uint64_t>, const SeenBatch*> known;
  std::map<uint64_t, std::pair<core::SetId, uint64_t>> stamps;
  for (const RankRecord& record : ranks) {
    if (std::string why = check_sequence(job, record); !why.empty()) return why;
    for (const SeenBatch& seen : record.batches) {
      const std::pair batch(seen.event.set, seen.event.number);
      const SeenBatch& other = *known.try_emplace(batch, &seen).first->second;
      const core::BatchEvent& a = seen.event;
      const core::BatchEvent& b = other.event;
      const bool same = same_operations(seen, other) && a.contributors == b.contributors && a.counts == b.counts &&
                        a.stamp == b.stamp && a.choice.algorithm == b.choice.algorithm &&
                        a.choice.chunk_bytes == b.choice.chunk_bytes && a.choice.stamps == b.choice.stamps;
      if (!same)
        return "batch " + std::to_string(a.number) + " of set " + std::to_string(a.set) + " differs on two ranks";
      if (stamps.try_emplace(a.stamp, batch).first->second != batch) return "two batches have one stamp";
    }
  }
  return {};
}

std::string check_sets(const Job& job, const std::vector<RankRecord>& ranks) {
  std::map<core::SetId, core::SetId> ids;
  std::map<core::SetId, core::SetId> numbers;
  for (const RankRecord& record : ranks) {
    for (const auto& [number, id] : record.made) {
      const std::string where = "set " + std::to_string(number);
      if (added_set(job, number)->spoiled) return where + " was made of two lists";
      if (ids.try_emplace(number, id).first->second != id) return where + " has two ids";
      if (numbers.try_emplace(id, number).first->second != number) return where + " has the id of another";
    }
  }
  return {};
}

/// Why a receive that was never proposed may have ended so, or the sentence that says that it may not.
std::string check_held(const Ticket& ticket) {
  if (!ticket.held || !ticket.outcome) return {};
  const Code code = ticket.outcome->error.code();
  const bool may = (code == Code::kTimeout && ticket.abandoned) || code == Code::kShutDown || code == Code::kPeerLost;
  return may && ticket.outcome->batch_set < 0 ? "" : "a receive without a sender has ended";
}

std::string check_outcomes(const Job& job, const std::vector<RankRecord>& ranks) {
  const bool death = std::any_of(ranks.begin(), ranks.end(), [](const RankRecord& each) { return each.dead; });
  for (const RankRecord& record : ranks) {
    for (const auto& [id, ticket] : record.tickets) {
      if (!ticket.outcome && !record.dead) return "ticket " + std::to_string(id) + " never ended";
      if (std::string why = check_held(ticket); !why.empty()) return why;
    }
    std::vector<int> goodbyes = record.goodbyes;
    std::sort(goodbyes.begin(), goodbyes.end());
    if (std::adjacent_find(goodbyes.begin(), goodbyes.end()) != goodbyes.end()) return "a goodbye came twice";
  }
  const Joints joints(job, ranks);
  for (const auto& [key, joint] : joints.all()) {
    if (std::string why = check_joint(joints, job, key, joint, death); !why.empty()) return why;
  }
  return {};
}

std::string check_nothing_lost(const Job& job, const std::vector<RankRecord>& ranks) {
  if (std::any_of(ranks.begin(), ranks.end(), [](const RankRecord& each) { return each.dead; })) return {};
  const Joints joints(job, ranks);
  const auto incomplete = [&](const Joint& joint) {
    return joint.tickets.size() + joint.excused != members_of(job, joint.set).ranks.size();
  };
  for (const auto& [key, joint] : joints.all()) {
    const bool waits =
        std::any_of(joint.tickets.begin(), joint.tickets.end(), [](const auto& each) { return !each.second->outcome; });
    if (waits && !joints.any(key, incomplete)) return name(key) + ": all members submitted it and it waits";
  }
  return {};
}

}  // namespace rueda::sim
