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

/// What a relay knows: of every key of a set, how often each rank below has proposed it, and how often that has gone
/// up. Ranks are counted by their place among those below (`place`).
///
///   level   the most that has gone up of any rank: whoever is behind it is not held but follows at once
///   ready   ranks that have proposed more than the level: when all members below have, the next occurrence leaves as
///           one
///
/// What is held of a key was proposed by the key's present id.
struct Relay::State {
  struct Set;
  using KeyName = std::pair<std::string, uint8_t>;  ///< the name; where it is empty, the kind of operation
  struct Key {
    Set* set = nullptr;
    const KeyName* name = nullptr;
    std::vector<uint64_t> proposed;  ///< by place
    std::vector<uint64_t> sent;      ///< by place
    uint64_t level = 0;
    size_t ready = 0;
    uint64_t id = 0;       ///< 0: none yet
    bool grouped = false;  ///< its home metadata is a group's
  };
  struct Set {
    std::vector<int> ranks;     ///< all members, ascending
    std::vector<int> places;    ///< of its members below
    std::vector<char> has;      ///< by place
    std::vector<char> grouped;  ///< by metadata number: it belongs to a group, whose members must not be parted
    std::map<KeyName, Key> keys;
    std::deque<uint64_t> evicted;  ///< ids, oldest first, whose eviction not all members below have seen
    uint64_t forgotten = 0;        ///< evictions that all have seen
    std::vector<uint64_t> seen;    ///< evictions, by place
    bool joining = false;          ///< somebody has joined, and nobody waits for the others
    bool ended = false;            ///< nothing proposed to it has an effect
    int receiver = -1;             ///< of a pair
    bool probed = false;           ///< of a pair: the receiver waits for whoever sends first
    bool holds() const { return !joining && !ended && !probed; }
  };
  struct Child {
    RelayConfig::Child::Kind kind;
    std::vector<int> ranks;
    std::vector<int> places;
    uint64_t next_id = 0;  ///< of a rank's steps
    FrameQueue down;
  };
  /// Something on its way up, in order: a proposal by id, or other records. No ranks: all members below.
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
  void append_goodbye(int place);

  // relay_hold.cc: what waits for others, and what does not.
  bool propose(const std::vector<int>& from, uint64_t id);
  void propose_held(Key& key, size_t place);
  void merge_if_ready(Key& key);
  void count_direct(Key& key, const std::vector<int>& from);
  void catch_up(Key& key);
  void send_held(Key& key, size_t place);
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
  std::vector<int> below;     ///< all ranks, ascending
  std::vector<int> place_of;  ///< by rank; -1: not below
  std::vector<Child> children;
  std::map<SetId, Set> sets;
  IdMap<Key> by_id;
  std::vector<Upward> upward;
  bool unacknowledged = false;
  size_t held = 0;
  std::vector<size_t> held_of;  ///< by place
  std::vector<char> probing;    ///< by place: it has asked who sends to it
  std::vector<char> left;       ///< by place: its goodbye has its place in the order
  size_t left_count = 0;
  bool over = false;  ///< rank 0 has left
};

}  // namespace rueda::core
