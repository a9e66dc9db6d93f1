#pragma once
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/deadline.h"

namespace rueda::test {

/// The TCP ports at which a process of this user listens.
std::vector<uint16_t> listening_ports(pid_t pid);

/// Crowds of connections to every port at which some processes listen, from a thread of its own, for as long as it
/// lives: scanners that connect and go, noise, HTTP, TLS without the job's key, half a hello, and slow ones that say a
/// byte a second. Some hundreds are open at a time. Looks for new ports again and again. Goes with all its connections.
class Strangers {
 public:
  explicit Strangers(std::vector<pid_t> pids);
  ~Strangers();
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;

  /// How many have connected so far.
  size_t count() const;
  /// Waits until there have been so many; false when the deadline passes before.
  bool reach(size_t count, core::Deadline deadline) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rueda::test
