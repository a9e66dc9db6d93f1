#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/agreement/agreement.h"
#include "runtime/agreement/fifo.h"
#include "runtime/agreement/id_map.h"
#include "runtime/agreement/messages.h"
#include "runtime/agreement/metadata_table.h"
#include "runtime/agreement/planner.h"

namespace rueda::core {

/// What rank 0 knows. An `Entry` is an id: a key of a set, with the counts that say how often each member has proposed
/// it, and its open occurrences. An occurrence goes
///
///   collecting ─all members, equal─▶ agreed ─group whole─▶ ready ─cut─▶ cut ─batch verdict─▶ settled
///       └── mismatch, abandoned, no algorithm ──▶ failed ──all members have proposed it──▶ settled
///
/// A batch that leaves alone goes from ready to settled at once; `cut` are the pieces of a group that wait for credit.
/// Settled occurrences leave `open`. An entry with none open is at rest: all counts are equal, and it may be evicted.
/// Owned by the Arbiter; used by the holder of rank 0's baton.
struct Arbiter::State {
  enum class Stage : uint8_t { kCollecting, kAgreed, kReady, kCut, kFailed, kSettled };
  struct Entry;
  struct Set;
  struct Ref {
    Entry* entry = nullptr;
    uint64_t occurrence = 0;
  };
  /// Occurrences that complete or fail together: the union of the groups, as ranks sent them, that share a member.
  struct Group {
    std::vector<Ref> members;
    size_t not_agreed = 0;
    size_t not_issued = 0;  ///< once all are agreed
  };
  struct Differing {
    int rank;
    Metadata metadata;
  };
  struct Occurrence {
    Stage stage = Stage::kCollecting;
    uint32_t proposed = 0;                              ///< by how many members
    uint32_t absent = 0;                                ///< members that had joined when it was agreed
    uint32_t number = kNoMetadata;                      ///< of the metadata that the first member sent
    std::unique_ptr<Metadata> own;                      ///< that metadata, if it has no number
    std::unique_ptr<std::vector<Differing>> differing;  ///< members that sent something else; null if none did
    MemoryKind memory = MemoryKind::kShared;            ///< shared only if every proposal so far says so
    std::unique_ptr<Metadata> elsewhere;                ///< the same in the other memory, if that has no number
    Group* group = nullptr;
    Status error;
    SteadyClock::time_point seen;  ///< when a look for stalls first found it collecting
  };
  struct Entry {
    uint64_t id = 0;
    Set* set = nullptr;
    std::string name;                  ///< empty: unnamed
    OpKind kind = OpKind::kAllreduce;  ///< of an unnamed key
    uint32_t home = kNoMetadata;
    bool announced = false;
    bool evicted = false;  ///< kept until no proposal by this id can be on its way
    uint64_t base = 0;     ///< occurrence number of open[0]
    Fifo<Occurrence> open;
    std::vector<uint64_t> counts;  ///< by member
    Entry* older = nullptr;        ///< at rest: the list by last use
    Entry* newer = nullptr;
    Occurrence& at(uint64_t occurrence) { return open[occurrence - base]; }
  };
  struct Piece {
    std::vector<PlannedTensor> tensors;
    AlgorithmChoice choice;
  };
  struct Set {
    Set(const SetMembers& given, size_t metadata_capacity, uint64_t threshold)
        : members(given), metadata(metadata_capacity), planner(threshold) {}
    SetMembers members;
    std::vector<int> index;  ///< by rank of the epoch; -1: no member
    int lowest = 0;
    MetadataTable metadata;
    std::unordered_map<std::string_view, Entry*> named;  ///< keys are the entries' names
    std::array<Entry*, kOpKindCount> unnamed{};
    Planner planner;
    std::deque<Piece> cut;  ///< batches of a group that leaves in several, still to go
    uint64_t issued = 0;
    uint64_t started = 0;    ///< credits that came back: of batches in host memory that began, on a device that ended
    bool on_device = false;  ///< the last batch that was issued
    std::deque<Entry*> evicted;  ///< oldest first
    uint64_t forgotten = 0;      ///< evictions that all members have seen
    std::vector<uint64_t> seen;  ///< evictions, by member
    bool ended = false;          ///< a member has left or removed it, or its name stands for two lists
    std::string name;            ///< that its members gave when they asked for it
    std::vector<char> removed;   ///< by member: it uses the set no more
    std::vector<char> joined;    ///< by member: it proposes nothing until all have joined
    size_t joined_count = 0;
    int last_joined = 0;
    int sender = -1;  ///< of a pair; -1 in other sets
    int receiver = -1;
    uint64_t decided = 0;                 ///< operations agreed or failed, and joins
    uint64_t decided_before = 0;          ///< `decided` at the last look for stalls
    SteadyClock::time_point quiet_since;  ///< when a look first found nothing decided since the one before
    /// The last batch that has begun, and at most one behind it, may be outstanding: on a device one that runs, and one
    /// that waits in the stream, so that the device need not wait for the next.
    bool has_credit() const { return issued - (!on_device && started > 0 ? started - 1 : started) < 2; }
    bool waiting() const { return !planner.empty() || !cut.empty(); }
  };
  /// A set that members have asked for. Members match by name, list and their order of asking: making `i` of `open` is
  /// every member's number `base + i`.
  struct Making {
    size_t asked = 0;              ///< by how many members
    Status refused;                ///< ok: it waits for the others
    SteadyClock::time_point seen;  ///< when a look for stalls first found it
  };
  struct SetKey {
    std::vector<uint64_t> counts;  ///< how often each member has asked
    uint64_t base = 0;
    std::deque<Making> open;
  };
  using NameAndRanks = std::pair<std::string, std::vector<int>>;
  /// The lists that ranks, members or not, gave for a name. A name stands for one list as long as the epoch.
  struct SetName {
    struct Given {
      std::vector<int> ranks;
      std::vector<int> by;
    };
    std::vector<Given> lists;
    Status spoiled;  ///< not ok: there were two
  };
  /// A receive from any of these ranks; none of them has sent a message for it yet.
  struct Probe {
    uint64_t number = 0;
    std::string name;
    std::vector<int> ranks;        ///< ascending
    SteadyClock::time_point seen;  ///< when a look for stalls first found it
  };
  /// What is sent to one rank.
  struct Incoming {
    std::map<int, SetId> pairs;  ///< by sender
    std::deque<Probe> probes;
    int last_sender = -1;  ///< named by the last answer to a probe
  };
  /// A proposal that waits for the rest of its group to arrive.
  struct Proposal {
    Entry* entry;
    uint32_t number;
    std::unique_ptr<Metadata> own;
  };
  struct Rank {
    explicit Rank(uint64_t epoch) : frames(epoch) {}
    FrameQueue frames;
    bool rings = false;  ///< `frames` has more than batches and what these need
    uint64_t next_id = 0;
    std::vector<Proposal> group;  ///< so far
    size_t group_size = 0;
    bool left = false;
  };

  explicit State(const AgreementConfig& given);
  std::string rank_name(int rank) const;

  // arbiter_receive.cc: one record of a proposal frame each. Return false if it breaks the protocol.
  bool take_record(int rank, WireReader& reader);
  bool take_step(int rank, uint64_t word, WireReader& reader);
  bool take_full(int rank, Set& set, WireReader& reader);
  static bool take_credit(int rank, Set& set, uint64_t count);
  bool take_timed(int rank, const Set& set, WireReader& reader) const;
  bool take_evictions_seen(int rank, Set& set, uint64_t count);
  bool take_abandon(int rank, Set& set, ProposalKind kind, WireReader& reader);
  bool take_by_id(int rank, uint64_t id);
  bool take_with_metadata(int rank, uint64_t id, WireReader& reader);
  Entry* entry_for(int rank, Entry* sent, bool& broken);
  Set* find_set(uint64_t id);

  // arbiter_relay.cc: many ranks behind one link.
  bool take_relayed(WireReader& reader);
  bool take_merged_step(WireReader& reader, uint64_t& next);
  void address(uint64_t audience, size_t requests);

  // arbiter_join.cc: members that contribute nothing.
  bool take_join(int rank, Set& set);
  void end_join_if_all(Set& set);
  static uint32_t absent_from(const Entry& entry, uint64_t occurrence);
  Status no_neutral(const Ref& ref) const;

  // arbiter_sets.cc: sets made, refused, ended, forgotten.
  Set& add_set(const SetMembers& members);
  bool take_make_set(int rank, WireReader& reader);
  bool take_give_up_set(int rank, WireReader& reader);
  bool take_remove_set(int rank, Set& set);
  bool spoils(int rank, const NameAndRanks& asked);
  void spoil(const std::string& name);
  void ask_for(int rank, const NameAndRanks& asked, uint64_t number);
  uint64_t count_asking(int rank, const NameAndRanks& asked);
  Set& make(const NameAndRanks& asked, uint64_t number);
  void refuse(const NameAndRanks& asked, SetKey& key, uint64_t number, const Status& why);
  void put_asking(const NameAndRanks& asked, uint64_t number);
  void tell_refusal(int rank, const NameAndRanks& asked, uint64_t number, const Status& why);
  void end_set(Set& set);
  void tell_end(Set& set, const Status& why);
  void forget_set(Set& set);
  void forget_entry(Entry& entry);
  void drop_makings_with(int rank);
  void make_pair(const NameAndRanks& asked, int sender, int receiver);

  // arbiter_probes.cc: receives from any rank.
  bool take_probe(int rank, WireReader& reader);
  bool take_drop_probe(int rank, WireReader& reader);
  enum class Unreceived { kNothing, kMessage, kFailure };
  Unreceived unreceived(Set& pair, const std::string& name) const;
  int sender_of(Unreceived what, const Incoming& own, int rank, const Probe& probe);
  int sender_for(const Incoming& own, int rank, const Probe& probe);
  void answer(Incoming& own, int rank, const Probe& probe, int sender);
  void look_for_probe(int rank, const Entry& entry);
  void find_stalled_probes(SteadyClock::time_point now, std::vector<Stalled>& found);

  // arbiter_entries.cc: keys, ids, what is at rest.
  Entry* find_key(Set& set, std::string_view name, OpKind kind) const;
  Entry& find_or_add(Set& set, std::string_view name, OpKind kind);
  void settle(Entry& entry);
  void put_to_rest(Entry& entry);
  void take_from_rest(Entry& entry);
  void evict_down_to_capacity();
  void drop_ended_from_rest();
  void forget_evicted(Set& set);

  // arbiter_match.cc: proposals become agreement or an error.
  bool accept(int rank, Entry& entry, uint32_t number, std::unique_ptr<Metadata> own);
  Ref count_proposal(int rank, Entry& entry, uint32_t number, std::unique_ptr<Metadata> own);
  void accept_group(int rank);
  void link(std::span<const Ref> refs);
  void merge(Group& into, Group& from);
  void complete_if_full(const Ref& ref);
  void agree(const Ref& ref);
  void fail(const Ref& ref, const Status& why);
  const Metadata& metadata_of(const Entry& entry, const Occurrence& occurrence) const;
  Status mismatch(const Ref& ref) const;
  Group& new_group();
  void release(Group& group);

  // arbiter_verdicts.cc: batches and what members are told.
  void push(const Ref& ref);
  void cut_next(Set& set);
  Result<AlgorithmChoice> choose(Set& set, std::span<const PlannedTensor> tensors);
  void issue(Set& set, std::span<const PlannedTensor> tensors, const AlgorithmChoice& choice);
  void issue_next(Set& set);
  void announce(Entry& entry, uint32_t home);
  uint32_t define(Set& set, const Metadata& metadata);
  enum class Expected { kNo, kYes };
  void tell(const Set& set, size_t requests, Expected expected = Expected::kNo);
  void tell_one(int rank);
  void leave(int rank);
  OperationRef reference(const Ref& ref) const;

  // arbiter_stall.cc: which ranks wait for which.
  void find_stalled_joins(SteadyClock::time_point now, std::vector<Stalled>& found);
  void find_stalled_sets(SteadyClock::time_point now, std::vector<Stalled>& found);
  Stalled describe_stalled(const Ref& ref, SteadyClock::time_point now) const;
  std::string who_has(const Ref& ref) const;
  static std::string of_set(const Set& set);

  const AgreementConfig config;
  std::map<SetId, Set> sets;
  SetId next_set = 1;
  std::map<NameAndRanks, SetKey> set_keys;
  std::map<std::string, SetName> set_names;
  std::map<int, Incoming> incoming;  ///< by receiver
  std::deque<Rank> ranks;
  FrameQueue addressed;
  int relayed_from = 0;  ///< rank that sent the record of a relayed frame that is at hand
  IdMap<Entry> by_id;
  std::deque<Entry> entries;
  std::vector<Entry*> free_entries;
  std::deque<Group> groups;
  std::vector<Group*> free_groups;
  uint64_t next_id = 1;
  uint64_t next_stamp = 0;
  Entry* oldest = nullptr;  ///< at rest, least recently used
  Entry* newest = nullptr;
  uint64_t at_rest = 0;
  bool ended = false;  ///< rank 0 has left: nothing is planned any more
  WireWriter record;   ///< scratch of one record
  std::vector<OperationRef> operations;
  std::vector<Entry*> batched;  ///< scratch of `issue`
  std::vector<Ref> refs;
  Cut cut;
};

}  // namespace rueda::core
