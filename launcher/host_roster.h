#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/hosts.h"

namespace rueda::core::launcher {

/// When a host on which workers fail gets no more of them.
struct BlacklistRules {
  int failures = 2;                         ///< so many (--blacklist-after) ...
  std::chrono::milliseconds window{60000};  ///< ... within this time
  /// How long it stays so (--blacklist-cooldown-range): the n-th time `least` * 2^n and up to `least` more, at most
  /// `most`. Without a range it stays so for ever.
  struct Cooldown {
    std::chrono::milliseconds least{0};
    std::chrono::milliseconds most{0};
  };
  std::optional<Cooldown> cooldown;
};

/// The hosts of an elastic job: their order, their slots, and which may be used. Pure: the caller gives the time. One
/// thread uses it.
class HostRoster {
 public:
  using Time = std::chrono::milliseconds;

  HostRoster(const std::vector<HostSlots>& hosts, BlacklistRules rules, uint64_t seed);

  /// Hosts keep their order, new ones go to the end. A new host may be used once it is `reached`, as may one that is
  /// lost. Those given to the constructor are reached. The slots of a host that was left out and comes back do not rest
  /// any more; the failures still count for the next rest, and for the blacklist.
  void list(const std::vector<HostSlots>& hosts);
  void lose(const std::string& host);
  /// The host answers.
  void reached(const std::string& host);
  /// The host is about to go: it is not used again before it is `reached` anew. Returns false if the job does not know
  /// it, or knows that already.
  bool preempt(const std::string& host);
  bool preempted(const std::string& host) const;
  /// A worker in this slot failed. Returns a sentence for the user if that blacklists the host. The last host that may
  /// be used is never blacklisted.
  std::string charge(const std::string& host, int slot, Time now);
  /// Ends the blacklisting of hosts that have cooled down by `now`.
  void cool(Time now);

  bool usable(const std::string& host, int slot) const;
  int usable_slots() const;
  /// Returns the host's index in the order of the job.
  size_t index(const std::string& host) const;
  /// A slot of a host that may be used. A worker may start in it from `from` on: after its n-th failure a slot rests
  /// 2^n s, at most a minute.
  struct Slot {
    std::string host;
    int slot = 0;
    Time from{0};
  };
  /// All usable slots, in order.
  std::vector<Slot> slots() const;
  /// When the next blacklisting ends, if one does.
  std::optional<Time> next_cool() const;

 private:
  struct Host {
    HostSlots host;
    bool listed = true;
    bool lost = false;  // or not reached yet
    bool preempted = false;
    std::vector<Time> failures;
    bool blacklisted = false;
    std::optional<Time> blacklisted_until;  // empty: for ever
    int blacklistings = 0;
    struct Rest {
      Time from{0};
      int failures = 0;
    };
    std::map<int, Rest> rests;  // by slot
    bool usable() const { return listed && !lost && !preempted && !blacklisted; }
  };
  Host* find(const std::string& host);
  const Host* find(const std::string& host) const;
  Time cooldown(const Host& host);

  std::vector<Host> hosts_;
  BlacklistRules rules_;
  uint64_t random_;
};

}  // namespace rueda::core::launcher
