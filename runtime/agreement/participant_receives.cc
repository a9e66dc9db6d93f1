// Receives from any rank. Only rank 0 knows which rank has sent, so such a receive is proposed once rank 0 has named
// its sender. See docs/decisions/0024-any-source.md.
//
//   receive from any ──probe──▶ rank 0 ──probed: sender──▶ proposal in the set of the two
//
// Receives of one name keep their order if one message could be for either. So a receive from a certain rank waits
// behind one from any rank until that one is proposed. A probe in turn waits for receives whose set is still to be
// made: rank 0 counts only what it knows, and would promise their message to the probe.
#include <algorithm>
#include <utility>

#include "runtime/agreement/participant_state.h"
#include "runtime/diagnosis/set_words.h"

namespace rueda::core {
namespace {

bool from_any(const Request& request) { return request.metadata.root < 0; }

}  // namespace

/// Keeps a receive that is from any rank, or behind one that may take its message. Returns false if the request is to
/// be proposed now.
bool Participant::State::hold_receive(const Request& request) {
  const bool single = request.metadata.kind == OpKind::kSend && request.group == 0;
  if (!single || request.metadata.root == config.rank) return false;
  const std::string name = request.name.str();
  if (!from_any(request)) {
    const auto known = receives.find(name);
    if (known == receives.end() || !concerns(known->second, request.metadata.root)) return false;
  }
  Receives& own = receives[name];
  own.waiting.push_back(request);
  if (own.waiting.size() == 1) advance(name);
  return true;
}

/// Returns whether a message from `sender` may be for one of the waiting receives.
bool Participant::State::concerns(const Receives& own, int sender) const {
  return std::any_of(own.waiting.begin(), own.waiting.end(), [&](const Request& request) {
    return from_any(request) ? sets.at(request.set).contains(sender) : request.metadata.root == sender;
  });
}

/// Returns whether this rank has a receive of the name that rank 0 does not know of, because its set is not made yet.
bool Participant::State::is_unproposed(const std::string& name) const {
  const auto is_one = [&name](const Request& request) {
    return request.metadata.kind == OpKind::kSend && request.name == name;
  };
  return std::any_of(sets.begin(), sets.end(), [&is_one](const auto& each) {
    return std::any_of(each.second.waiting.begin(), each.second.waiting.end(), [&is_one](const Waiting& waiting) {
      return std::any_of(waiting.requests.begin(), waiting.requests.end(), is_one);
    });
  });
}

/// Proposes what stands at the front, up to the next one from any rank, and asks for a sender of that one. Sets
/// `freed`, so that the next frame rings: no later submission of the application need follow that carries these
/// proposals.
void Participant::State::advance(const std::string& name) {
  Receives& own = receives.at(name);
  while (!own.waiting.empty()) {
    const Request& front = own.waiting.front();
    if (!from_any(front)) {
      freed = true;
      enter(*find_number(front.set), {&front, 1});
    } else if (Status why = why_from_nobody(front); !why.ok()) {
      drop_probe(own);
      events.emplace_back(ErrorEvent{{front.ticket}, std::move(why)});
    } else {
      if (own.probe == 0 && !is_unproposed(name)) probe(own, front);
      return;
    }
    own.waiting.pop_front();
  }
  receives.erase(name);
}

/// Asks rank 0 for a sender, among all members of the set that the application named.
void Participant::State::probe(Receives& own, const Request& receive) {
  own.probe = next_probe++;
  std::vector<int> ranks = find_number(receive.set)->ranks;
  std::sort(ranks.begin(), ranks.end());
  WireWriter record;
  record.varint(own.probe);
  record.text(receive.name);
  put_ranks(record, ranks);
  proposals.record(kGlobalSet, ProposalKind::kProbe, record.size() + kMaxRecordBytes).raw(record.view());
  freed = true;
}

void Participant::State::drop_probe(Receives& own) {
  if (own.probe != 0) proposals.record(kGlobalSet, ProposalKind::kDropProbe).varint(std::exchange(own.probe, 0));
}

/// Ok while some other member of the set has not shut down.
Status Participant::State::why_from_nobody(const Request& receive) const {
  const Set& set = sets.at(receive.set);
  const auto is_there = [this](int rank) { return rank != config.rank && left[static_cast<size_t>(rank)] == 0; };
  if (std::any_of(set.ranks.begin(), set.ranks.end(), is_there)) return {};
  return {Code::kShutDown, "all other ranks" + core::of_set(set.name, set.ranks) +
                               " have shut down, so none can send to a receive from any rank"};
}

/// The answer to a probe. If the receive was given up meanwhile, nothing is done: the message stays for the next
/// receive.
bool Participant::State::take_probed(WireReader& reader) {
  const uint64_t number = reader.varint();
  const auto sender = static_cast<int>(reader.varint(static_cast<uint64_t>(config.size - 1)));
  if (!reader.ok() || sender == config.rank) return false;
  const auto asking = std::find_if(receives.begin(), receives.end(),
                                   [number](const auto& each) { return each.second.probe == number; });
  if (asking == receives.end()) return true;
  // The pair is made: the sender has proposed in it, and its kSet came before this verdict.
  Set* pair = find_number(pair_number(config.rank, sender, config.rank));
  if (pair == nullptr) return false;
  Receives& own = asking->second;
  Request request = std::move(own.waiting.front());
  own.waiting.pop_front();
  own.probe = 0;
  request.set = pair->number;
  request.metadata.root = sender;
  events.emplace_back(SourceEvent{request.ticket, sender});
  freed = true;
  enter(*pair, {&request, 1});
  advance(std::string(asking->first));
  return true;
}

/// No other rank knows of a receive that is not proposed, so it fails here alone and needs no verdict.
bool Participant::State::abandon_receive(uint64_t ticket, const std::string& sentence) {
  for (auto& [name, own] : receives) {
    const auto found = std::find_if(own.waiting.begin(), own.waiting.end(),
                                    [ticket](const Request& request) { return request.ticket == ticket; });
    if (found == own.waiting.end()) continue;
    const bool asking = found == own.waiting.begin();
    const char* why =
        from_any(*found) ? ": no rank has sent it" : ": an earlier receive from any rank has no message yet";
    events.emplace_back(ErrorEvent{{ticket}, {Code::kTimeout, bounded_sentence(sentence + why), config.rank}});
    own.waiting.erase(found);
    if (!asking) return true;
    drop_probe(own);
    advance(std::string(name));
    return true;
  }
  return false;
}

/// Called when a rank has left. Receives from that rank fail now; those from any rank fail if it was the last one.
void Participant::State::review_receives() {
  for (auto& [name, own] : receives) {
    std::erase_if(own.waiting, [this](const Request& request) {
      const Set& set = sets.at(request.set);
      if (from_any(request) || set.over.ok()) return false;
      events.emplace_back(ErrorEvent{{request.ticket}, needs(set, request.name, request.metadata.kind)});
      return true;
    });
  }
  advance_all();
}

/// Called when a set was made or a rank has left: the receive at the front of any name may have waited for this. Copies
/// the names first, because `advance` erases.
void Participant::State::advance_all() {
  std::vector<std::string> names;
  for (const auto& [name, own] : receives) names.push_back(name);
  for (const std::string& name : names) advance(name);
}

/// Takes all receives that have not been proposed, in order of submission within a name.
std::vector<Request> Participant::State::take_receives() {
  std::vector<Request> all;
  for (auto& [name, own] : std::exchange(receives, {})) all.insert(all.end(), own.waiting.begin(), own.waiting.end());
  return all;
}

}  // namespace rueda::core
