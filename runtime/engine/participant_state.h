#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/engine/agreement.h"
#include "runtime/engine/fifo.h"
#include "runtime/engine/id_map.h"
#include "runtime/engine/messages.h"
#include "runtime/engine/metadata_table.h"

namespace rueda::core {

/// Hashes names without making a string of a view.
struct NameHash {
  using is_transparent = void;
  size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
};

/// What a participant knows. Occurrences of a key are counted from 0 since its id was given, on every rank alike:
///
///   occurrence  0 .. floor-1     have a verdict
///               floor ..         have none, but for those in `ahead`
///               .. count-1       proposed by this rank; those without a verdict are in `pending`
///               in `owed`        have an error verdict and wait for this rank to propose them
struct Participant::State {
  struct Operation {
    uint64_t ticket;
    uint64_t occurrence;
    OpKind kind;
  };
  struct Owed {
    uint64_t occurrence;
    Status status;
  };
  struct Set;
  struct Key {
    Set* set = nullptr;
    std::string name;                  ///< empty: unnamed
    OpKind kind = OpKind::kAllreduce;  ///< of an unnamed key
    uint64_t id = 0;                   ///< 0: none yet
    uint32_t home = kNoMetadata;       ///< the metadata that a proposal by id means when it says nothing
    uint64_t count = 0;
    uint64_t floor = 0;
    std::vector<uint64_t> ahead;
    Fifo<Operation> pending;
    std::vector<Owed> owed;
  };
  struct Set {
    Set(const SetMembers& members, size_t metadata_capacity)
        : id(members.id), ranks(members.ranks), metadata(metadata_capacity) {}
    SetId id;
    std::vector<int> ranks;
    MetadataTable metadata;
    std::unordered_map<std::string, Key, NameHash, std::equal_to<>> named;
    std::array<Key, 3> unnamed;
    uint64_t batches = 0;    ///< numbers used
    uint64_t started = 0;    ///< batches reported as started
    uint64_t evictions = 0;  ///< seen and not yet reported
    int leaver = -1;         ///< who ended it
    bool contains(int rank) const { return std::find(ranks.begin(), ranks.end(), rank) != ranks.end(); }
    int lowest() const { return *std::min_element(ranks.begin(), ranks.end()); }
  };

  explicit State(const AgreementConfig& given);

  Set* find_set(SetId id);
  Key& find_or_add(Set& set, std::string_view name, OpKind kind);
  std::string rank_name(int rank) const;

  /// Empty if this span may be proposed, else why all of it fails.
  Status refusal(std::span<const Request> requests);
  void propose(Set& set, const Request& request);
  void encode(Key& key, const Request& request);
  Status left_status(const Set& set, const Key& key, OpKind kind) const;

  // Each takes one record of a verdict frame; false if it breaks the protocol.
  bool take_verdict(WireReader& reader);
  bool take_assign(WireReader& reader);
  bool take_define(WireReader& reader);
  bool take_batch(WireReader& reader);
  bool take_error(WireReader& reader);
  bool take_evictions(WireReader& reader);
  bool take_goodbye(WireReader& reader);
  /// Notes the verdict on an occurrence; its number since the id was given, or false if it has one already.
  static bool resolve(Key& key, uint64_t ahead, uint64_t& occurrence);
  static bool remove_pending(Key& key, uint64_t occurrence, uint64_t& ticket);
  bool evict(Set& set, uint64_t id);
  void end_set(Set& set, int leaver);
  template <typename Visit>
  void for_each_key(Set& set, Visit visit);

  const AgreementConfig config;
  std::deque<Set> sets;
  IdMap<Key> by_id;
  ProposalWriter proposals;
  std::vector<Event> events;
  std::vector<OperationRef> operations;  ///< scratch of one verdict
  Status over;                           ///< not ok: every request fails with this
  bool leaving = false;
};

template <typename Visit>
void Participant::State::for_each_key(Set& set, Visit visit) {
  for (Key& key : set.unnamed) visit(key);
  for (auto& [name, key] : set.named) visit(key);
}

}  // namespace rueda::core
