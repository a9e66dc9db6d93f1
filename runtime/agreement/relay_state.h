#pragma once
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/agreement/id_map.h"
#include "runtime/agreement/messages.h"
#include "runtime/agreement/relay.h"

namespace rueda::core {

/// What a relay knows: for every key of a set, how often each rank below has proposed it, and how many of these
/// proposals have gone up. A rank's `position` is its index among the ranks below, in ascending order.
///
///   level   the most proposals of any rank that have gone up; a rank behind the level is not held but follows at once
///   ready   number of ranks that have proposed more than the level; when all members below have, the next occurrence
///           leaves as one
///
/// All held proposals of a key were made by the key's present id.
struct Relay::State {
  struct Set;
  using KeyName = std::pair<std::string, uint8_t>;  ///< the name; if it is empty, the kind of operation
  struct Key {
    Set* set = nullptr;
    const KeyName* name = nullptr;
    std::vector<uint64_t> proposed;  ///< by position
    std::vector<uint64_t> sent;      ///< by position
    uint64_t level = 0;
    size_t ready = 0;
    uint64_t id = 0;       ///< 0: none yet
    bool grouped = false;  ///< its home metadata belongs to a group
  };
  struct Set {
    std::vector<int> ranks;      ///< all members, ascending
    std::vector<int> positions;  ///< its members below
    std::vector<char> has;       ///< by position
    std::vector<char> grouped;   ///< by metadata number: it belongs to a group, which must not be parted
    std::map<KeyName, Key> keys;
    std::deque<uint64_t> evicted;  ///< ids, oldest first, whose eviction not all members below have seen
    uint64_t forgotten = 0;        ///< evictions that all have seen
    std::vector<uint64_t> seen;    ///< evictions, by position
    bool joining = false;          ///< a member has joined: occurrences are complete without it
    bool ended = false;            ///< nothing proposed to it has an effect
    int receiver = -1;             ///< of a pair
    bool probed = false;           ///< of a pair: the receiver has received from any rank
    bool holds() const { return !joining && !ended && !probed; }
  };
  struct Child {
    RelayConfig::Child::Kind kind;
    std::vector<int> ranks;
    std::vector<int> positions;
    uint64_t next_id = 0;  ///< of a rank's steps
    FrameQueue down;
  };
  /// A proposal by id, or other records, on its way up, in order. `ranks` is empty for all members below.
  struct Upward {
    std::vector<int> ranks;
    uint64_t id = 0;
    std::vector<std::byte> records;
  };

  explicit State(const RelayConfig& given);

  // relay_up.cc: what children send.
  bool take_relayed(const Child& child, WireReader& reader);
  bool take_records(const std::vector<int>& from, WireReader& reader, std::span<const std::byte> bytes,
                    uint64_t& next_id);
  bool take_steps(const std::vector<int>& from, uint64_t word, WireReader& reader, std::span<const std::byte> bytes,
                  uint64_t& next_id);
  bool note_record(const std::vector<int>& from, uint64_t word, WireReader& record);
  void note_probe(const std::vector<int>& from);
  bool note_evictions_seen(const std::vector<int>& from, Set& set, uint64_t count);
  void append(const std::vector<int>& from, std::span<const std::byte> records);
  void append_goodbye(int position);

  // relay_hold.cc: proposals that wait for other ranks.
  bool propose(const std::vector<int>& from, uint64_t id);
  void propose_held(Key& key, size_t position);
  void merge_if_ready(Key& key);
  void count_direct(Key& key, const std::vector<int>& from);
  void catch_up(Key& key);
  void send_held(Key& key, size_t position);
  void release_of(const std::vector<int>& from);
  void release_key(Key& key);
  void push_up(int rank, uint64_t id);
  Key& key_of(Set& set, const std::string& name, uint8_t kind);
  void drop_held(Key& key);
  void end_set(Set& set);
  void forget_evicted(Set& set);
  void forget_set(SetId id);

  // relay_down.cc: what comes from the parent.
  bool take_addressed(WireReader& reader);
  bool learn(WireReader& verdict);
  bool learn_set(WireReader& verdict);
  bool learn_key(Set& set, WireReader& verdict);
  bool learn_goodbye(WireReader& verdict);
  void learn_join_end(Set& set);
  void add_set(SetId id, const std::vector<int>& ranks);
  bool concerns(const Child& child, uint64_t audience) const;

  const RelayConfig config;
  std::vector<int> below;        ///< all ranks, ascending
  std::vector<int> position_of;  ///< by rank; -1: not below
  std::vector<Child> children;
  std::map<SetId, Set> sets;
  IdMap<Key> by_id;
  std::vector<Upward> upward;
  bool unacknowledged = false;
  size_t held = 0;
  std::vector<size_t> held_of;  ///< by position
  std::vector<char> probing;    ///< by position: it has received from any rank
  std::vector<char> left;       ///< by position: its goodbye has come back from rank 0
  size_t left_count = 0;
  bool over = false;  ///< rank 0 has left
};

}  // namespace rueda::core
