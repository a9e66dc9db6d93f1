#pragma once
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/net/control_link.h"
#include "runtime/net/shm_ring.h"

namespace rueda::core {

/// The two ends of one pair of local ranks, as one of them sees it.
struct LocalPair {
  std::shared_ptr<Segment> own;
  std::shared_ptr<Segment> peer;
  int own_index = 0;       ///< own local rank
  int peer_index = 0;      ///< the peer's local rank
  int peer_rank = 0;       ///< in the epoch, for sentences
  int peer_doorbell = -1;  ///< the peer's eventfd; stays the caller's and outlives the link
};

/// Frames over two byte rings in shared memory: a u32 length, then the bytes. A frame longer than the ring's free space
/// goes in pieces. No system call unless the peer's baton lies down (ControlWords::asleep): then its eventfd is
/// written, when bytes have come for it, and when space has come that it may wait for.
///
/// To put the baton down: store kRestingIdle or kRestingExpecting to `own->control().asleep`, then take it again if any
/// link is `readable()`. From then on every event that makes a link readable, and that the stored value asks for,
/// writes the own eventfd.
///
/// Used by the holder of the baton. Shares ownership of both segments.
class ShmControlLink : public ControlLink {
 public:
  explicit ShmControlLink(LocalPair pair);

  void send(std::span<const std::byte> frame, Urgency urgency = Urgency::kRing) override;
  bool flush() override;
  std::optional<Frame> receive() override;
  bool readable() const override;
  /// kShutDown: the peer has closed, after everything it sent. kPeerLost: what came is no frame. The peer's death is
  /// not seen here, but by its pidfd or `LocalPeer::life`.
  Status status() const override { return status_; }
  /// Nothing may be sent afterwards.
  void close_send() override;

 private:
  static constexpr size_t kLengthBytes = 4;

  void write(std::span<const std::byte> bytes);
  void wake_peer(Urgency urgency = Urgency::kRing);
  bool take_length();
  bool take_frame();
  void refuse(Code code, const std::string& what);

  LocalPair pair_;
  RingWriter writer_;
  RingReader reader_;
  Status status_;
  std::vector<std::byte> queue_;  ///< what the ring had no room for
  size_t queue_begin_ = 0;        ///< what of the queue has left
  std::array<std::byte, kLengthBytes> length_{};
  size_t length_taken_ = 0;
  Frame frame_;
  size_t frame_taken_ = 0;
};

}  // namespace rueda::core
