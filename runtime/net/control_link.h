#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/frame.h"
#include "runtime/base/status.h"

namespace rueda::core {

/// Whether a frame is worth waking a peer that looks at nothing just now.
enum class Urgency {
  kRing,          ///< wakes it
  kWithNextTurn,  ///< wakes it only if it expects something; otherwise it reads the frame when it has cause to look
};

/// An ordered, reliable stream of frames between two ranks. Used by the baton's holder; never blocks.
/// A link does not survive its epoch.
class ControlLink {
 public:
  virtual ~ControlLink() = default;
  /// Takes the frame over; it leaves now or with a later `flush`, in order.
  virtual void send(std::span<const std::byte> frame, Urgency urgency = Urgency::kRing) = 0;
  /// Moves on what could not leave at once. True when nothing is left to write.
  virtual bool flush() = 0;
  /// The next whole frame, if one has come. A frame over kMaxFrameBytes breaks the link.
  virtual std::optional<Frame> receive() = 0;
  /// True if `receive` might return a frame now, or `flush` move bytes: for the re-check before the baton is put down.
  virtual bool readable() const = 0;
  /// Not ok once the peer has closed or broken the link; frames received before can still be taken.
  virtual Status status() const = 0;
  /// Half-closes after everything sent has left.
  virtual void close_send() = 0;
};

}  // namespace rueda::core
