#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/agreement/agreement.h"
#include "runtime/agreement/fifo.h"
#include "runtime/agreement/id_map.h"
#include "runtime/agreement/messages.h"
#include "runtime/agreement/metadata_table.h"

namespace rueda::core {

inline constexpr SetId kNoSetId = UINT32_MAX;

/// Hashes names without making a string of a view.
struct NameHash {
  using is_transparent = void;
  size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
};

/// What a participant knows. Occurrences of a key are counted from 0 since its id was given, on every rank alike:
///
///   occurrence  0 .. floor-1     have a verdict
///               floor ..         have none, except those in `ahead`
///               .. count-1       are proposed by this rank; those without a verdict are in `pending`
///               in `owed`        have an error verdict and wait for this rank to propose them
///
/// If ranks disagree on the members of a group, everything that any of them named fails together. A rank whose own
/// group was part of that will not propose the rest, so the participant proposes it by itself (`level`). Without that
/// the rank would stay one occurrence behind for good. Owned by the Participant; used by the holder of the baton.
struct Participant::State {
  struct Operation {
    uint64_t ticket;
    uint64_t occurrence;
    OpKind kind;
    bool grouped;
  };
  struct Owed {
    uint64_t occurrence;
    Status status;
    uint64_t failure;  ///< number of the failure that it belongs to
  };
  struct OwedFailure {
    std::vector<uint64_t> ids;  ///< of the keys
    size_t left = 0;            ///< number of errors not yet given to an operation
  };
  /// A failure, as far as this rank has not proposed it: ids of the keys that owe it an error.
  struct Failure {
    uint64_t number = 0;
    std::vector<uint64_t> missed;
    bool grouped = false;  ///< this rank has proposed some of it as a group
  };
  /// Receives of one name, in order. The front one is from any rank; the others wait for it.
  struct Receives {
    std::deque<Request> waiting;
    uint64_t probe = 0;  ///< number of the probe for the sender of the front one; 0: none sent
  };
  struct Set;
  struct Key {
    Set* set = nullptr;
    std::string name;                  ///< empty: unnamed
    OpKind kind = OpKind::kAllreduce;  ///< of an unnamed key
    uint32_t number = 0;               ///< number that its requests carry; 0: they carry the name only
    uint64_t id = 0;                   ///< 0: none yet
    uint32_t home = kNoMetadata;       ///< the metadata that a proposal by id alone means
    uint64_t count = 0;
    uint64_t floor = 0;
    std::vector<uint64_t> ahead;
    Fifo<Operation> pending;
    std::vector<Owed> owed;
  };
  /// An operation, or a whole group, that waits for its set to be made.
  struct Waiting {
    std::vector<Request> requests;
    std::string abandoned;  ///< the sentence; empty if it was not abandoned
  };
  struct Set {
    Set(SetId own_number, std::vector<int> members, const AgreementConfig& config);
    const SetId number;            ///< given by this rank
    SetId id = kNoSetId;           ///< given by rank 0 when it is made
    std::string name;              ///< that it was asked for by
    uint64_t asking = 0;           ///< number of sets with this name and these ranks that were asked for before
    const std::vector<int> ranks;  ///< in any order
    const bool member;             ///< whether this rank is one
    const bool lowest;             ///< whether this rank is the member that returns credits
    MetadataTable metadata;
    std::unordered_map<std::string, Key, NameHash, std::equal_to<>> named;
    std::vector<Key*> numbered;  ///< keys in `named` by a request's number; null: not looked up yet
    std::array<Key, kOpKindCount> unnamed;
    std::vector<Waiting> waiting;              ///< until it is made
    std::map<uint64_t, OwedFailure> failures;  ///< by number: failures of several keys with errors still owed
    uint64_t batches = 0;                      ///< number of batches so far
    uint64_t started = 0;                      ///< batches reported as started
    uint64_t evictions = 0;                    ///< seen and not yet reported
    Status over;                               ///< not ok: operations that need the set fail with this reason
    bool joined = false;                       ///< until all members have
    uint64_t join_ticket = kNoTicket;
    bool gone = false;  ///< removed by this rank, and kept until all members have
    bool contains(int rank) const { return std::find(ranks.begin(), ranks.end(), rank) != ranks.end(); }
  };

  explicit State(const AgreementConfig& given);

  Set* find_set(SetId id);
  Set* find_number(SetId number);
  Key& find_or_add(Set& set, std::string_view name, OpKind kind);
  /// The same for a request: its number saves the look-up.
  Key& key_of(Set& set, const Request& request);
  std::string rank_name(int rank) const;

  /// Ok if this span may be proposed, else why all of it fails.
  Status refusal(std::span<const Request> requests);
  /// Proposes the requests now, or once their set is made.
  void enter(Set& set, std::span<const Request> requests);
  void propose(Set& set, const Request& request);
  void encode(Key& key, const Request& request);
  /// Proposes one operation, or a group.
  void propose_all(Set& set, std::span<const Request> requests);
  void pay(Set& set, const Owed& owed, bool grouped);
  void level(std::span<const uint64_t> ids, uint64_t failure);
  void join(Set& set, uint64_t ticket);
  void ask_abandon(const Key& key, const Operation& operation, const std::string& sentence);
  Status needs(const Set& set, std::string_view name, OpKind kind) const;
  /// Whether an occurrence of the key has its verdict, as far as this rank remembers.
  static bool ran_before(const Set& set, std::string_view name, OpKind kind);

  // Each takes one record of a verdict frame and returns false if it breaks the protocol.
  bool take_verdict(WireReader& reader);
  bool take_assign(WireReader& reader);
  bool take_define(WireReader& reader);
  bool take_batch(WireReader& reader);
  bool take_extents(WireReader& reader, BatchEvent& batch) const;
  bool take_error(WireReader& reader);
  void end_failure(Set& set);
  bool take_join_end(WireReader& reader);
  bool take_operation(Set& set, const OperationRef& operation, uint64_t& ticket);
  bool take_evictions(WireReader& reader);
  bool take_goodbye(WireReader& reader);
  /// Notes that an occurrence has its verdict, and finds its number since the id was given. Returns false if it has one
  /// already.
  static bool resolve(Key& key, uint64_t ahead, uint64_t& occurrence);
  static bool remove_pending(Key& key, uint64_t occurrence, Operation& removed);
  bool evict(Set& set, uint64_t id);

  // participant_sets.cc: sets made, refused, ended, forgotten.
  Set& add_set(SetId number, const std::vector<int>& ranks);
  /// How an answer of rank 0 names the request for a set.
  struct Asking {
    std::string name;
    std::vector<int> ranks;
    uint64_t number = 0;
  };
  Asking get_asking(WireReader& reader) const;
  Set* asked_for(const Asking& asking);
  Set* add_pair(const Asking& asking);
  void give_up(const Set& set, const Status& why);
  bool take_set(WireReader& reader);
  bool take_no_set(WireReader& reader);
  bool take_end_set(WireReader& reader);
  bool take_forget_set(WireReader& reader);
  void start(Set& set);
  bool abandon_waiting(uint64_t ticket, const std::string& sentence);
  void end_set(Set& set, const Status& why);
  void erase(Set& set);

  // participant_receives.cc: receives from any rank, and receives that wait behind one.
  bool hold_receive(const Request& request);
  bool concerns(const Receives& own, int sender) const;
  bool is_unproposed(const std::string& name) const;
  void advance(const std::string& name);
  void advance_all();
  void drop_probe(Receives& own);
  void probe(Receives& own, const Request& receive);
  Status why_from_nobody(const Request& receive) const;
  bool take_probed(WireReader& reader);
  bool abandon_receive(uint64_t ticket, const std::string& sentence);
  void review_receives();
  std::vector<Request> take_receives();
  template <typename Visit>
  void for_each_key(Set& set, Visit visit);

  const AgreementConfig config;
  std::map<SetId, Set> sets;                                           ///< by number
  std::unordered_map<SetId, Set*> made;                                ///< by id
  std::map<std::pair<std::string, std::vector<int>>, uint64_t> asked;  ///< number of requests, by name and ranks
  std::map<std::string, Receives> receives;                            ///< by name
  uint64_t next_probe = 1;
  std::vector<char> left;  ///< by rank: it has said goodbye
  IdMap<Key> by_id;
  ProposalWriter proposals;
  std::vector<Event> events;
  std::vector<OperationRef> operations;  ///< scratch of one verdict
  Failure failing;                       ///< the one at hand, while more of it follows
  std::vector<uint64_t> paid;            ///< failures that the proposals at hand got errors of
  Status over;                           ///< not ok: every request fails with this
  bool leaving = false;
  bool freed = false;  ///< since the last frame, something that had waited was proposed, or rank 0 was asked
  ProposalCounts counts;
  uint64_t by_id_alone = 0;  ///< id of the latest key that was proposed by it alone
};

template <typename Visit>
void Participant::State::for_each_key(Set& set, Visit visit) {
  for (Key& key : set.unnamed) visit(key);
  for (auto& [name, key] : set.named) visit(key);
}

}  // namespace rueda::core
