#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>

#include "runtime/base/deadline.h"

namespace rueda::core {

/// What one look at a rank of this host shows.
struct PeerSign {
  std::optional<char> state;  ///< the letter of its process (`process_state`); empty if it cannot be known
  uint64_t beats = 0;         ///< its `ControlWords::beats`
};

/// Judges ranks of this host that do not run. A process that the kernel shows as stopped (SIGSTOP) is dead after three
/// fifths of the limit, and a process without a heartbeat after four fifths: a container that is paused, a frozen
/// cgroup, or a stopped process that this one cannot see. So a verdict comes within the limit. Busy and waiting
/// processes have a heartbeat. A traced process may be silent for as long as its debugger likes.
///
/// Time counts only while this process runs: what passes between two looks counts as a fifth of the limit at most. If
/// the whole machine is suspended or slow, no rank is judged for it.
///
/// Pure: a look is handed in with its time. The coordinator owns it; its thread uses it.
class StoppedPeers {
 public:
  enum class Finding { kNone, kStopped, kSilent };

  struct Limits {
    std::chrono::nanoseconds whole;       ///< if zero or less no rank is ever judged
    std::chrono::nanoseconds first_beat;  ///< what a rank has in addition whose heart has not beaten yet
    int leader = -1;                      ///< the rank, if any, that has the whole limit
  };
  /// `Limits::leader`: the rank of this host through which alone this rank reaches the other hosts; -1: none. Other
  /// hosts find a stopped leader by its silence, after the whole limit. This rank must not judge its leader earlier:
  /// its verdict could not reach the other hosts, which would see this rank leave without a reason.
  explicit StoppedPeers(const Limits& limits) : limits_(limits) {}

  /// After how long `rank` is dead, if the kernel shows it as stopped or if it only has no heartbeat.
  std::chrono::nanoseconds stopped_limit(int rank) const { return share(rank, 3); }
  std::chrono::nanoseconds silent_limit(int rank) const { return share(rank, 4); }
  /// Takes a look at `rank`. Returns what is wrong with it, once: a rank that was told is not judged again. Between two
  /// looks it counts as stopped, or as silent, only if both found it so.
  Finding seen(int rank, const PeerSign& sign, SteadyClock::time_point now);
  /// Whether a rank seems not to run: then look more often.
  bool watching() const;

 private:
  struct Peer {
    SteadyClock::time_point looked;
    uint64_t beats = 0;
    std::chrono::nanoseconds silent{0};
    std::optional<std::chrono::nanoseconds> stopped{};
    bool told = false;
  };
  std::chrono::nanoseconds share(int rank, int fifths) const {
    return rank == limits_.leader ? limits_.whole : limits_.whole * fifths / 5;
  }
  const Limits limits_;
  std::map<int, Peer> peers_;
};

}  // namespace rueda::core
