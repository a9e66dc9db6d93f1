#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/frame.h"
#include "runtime/base/status.h"

namespace rueda::core {

/// Whether a frame is worth waking a peer that is asleep.
enum class Urgency {
  kRing,          ///< wakes the peer
  kWithNextTurn,  ///< wakes the peer only if it expects something; otherwise the peer reads the frame on its next turn
};

/// An ordered, reliable stream of frames between two ranks. The holder of the baton uses it; no function blocks.
/// A link ends with its epoch. One test suite runs over every implementation (control_link_suite_test.cc).
class ControlLink {
 public:
  virtual ~ControlLink() = default;
  /// Copies the frame; it leaves now or with a later `flush`, in order. Drops an empty frame, and every frame after
  /// `close_send`. A frame over kMaxFrameBytes does not leave and ends the sending direction: `status` then says so
  /// (kSystem), and later frames are dropped.
  virtual void send(std::span<const std::byte> frame, Urgency urgency = Urgency::kRing) = 0;
  /// Moves what could not leave at once. Returns true if nothing is left to write.
  virtual bool flush() = 0;
  /// Returns the next whole frame if one has come. A frame over kMaxFrameBytes breaks the link.
  virtual std::optional<Frame> receive() = 0;
  /// Returns true if `receive` might return a frame now, or `flush` might move bytes. The holder of the baton asks once
  /// more before it puts the baton down.
  virtual bool readable() const = 0;
  /// Not ok once the link has ended in one direction; frames that came before can still be taken.
  /// kShutDown: the peer has called `close_send`, and every frame it sent before has come.
  /// kPeerLost: the peer broke the link, with a frame over the limit or by closing it without `close_send`.
  /// kSystem: this rank sent a frame over the limit.
  virtual Status status() const = 0;
  /// Ends the sending direction after everything sent has left. Frames of the peer still arrive.
  virtual void close_send() = 0;
};

/// Why a link does not take a frame of `bytes` bytes to `rank`; `peer` is the rank's name in sentences.
Status refused_frame(const std::string& peer, int rank, size_t bytes);
/// Why a frame of `bytes` bytes from `rank` breaks the link.
Status oversized_frame(const std::string& peer, int rank, size_t bytes);
/// `rank` has called `close_send`.
Status ended_by_peer(const std::string& peer, int rank);

}  // namespace rueda::core
