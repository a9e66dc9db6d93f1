#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/net/control_link.h"

namespace rueda::core {

/// Both ends of one control link, between rank 0 and rank 1, with everything below that moves its bytes. Each end
/// belongs to one thread at a time.
class ControlLinkPair {
 public:
  virtual ~ControlLinkPair() = default;
  virtual ControlLink& end(int rank) = 0;
  /// Blocks as the holder of the baton sleeps: until this rank has a reason to look at its end again. Returns false
  /// if none comes within a minute.
  virtual bool await(int rank) = 0;
  /// Sends what rank 0's end refuses: the beginning of a frame of `bytes` bytes, or all of it.
  virtual void forge(uint32_t bytes) = 0;
};

/// One implementation of `ControlLink`.
struct ControlLinkKind {
  const char* name;
  std::unique_ptr<ControlLinkPair> (*make)();
};

/// Every implementation: shared memory with a ring of 256 bytes and of 16 KiB, TCP, and a fabric.
const std::vector<ControlLinkKind>& control_link_kinds();

}  // namespace rueda::core
