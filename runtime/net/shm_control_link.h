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

/// A pair of local ranks as one of them sees it.
struct LocalPair {
  std::shared_ptr<Segment> own;
  std::shared_ptr<Segment> peer;
  int own_index = 0;       ///< own local rank
  int peer_index = 0;      ///< the peer's local rank
  int peer_rank = 0;       ///< in the epoch, for sentences
  int peer_doorbell = -1;  ///< the peer's eventfd; stays the caller's and outlives the link
};

/// Frames over two byte rings in shared memory: a u32 length, then the bytes. A frame longer than the ring's free space
/// goes in pieces. Makes no system call unless no thread of the peer holds its baton (ControlWords::asleep); then it
/// writes the peer's eventfd when bytes have come for the peer, and when space has come that it may wait for.
///
/// To put the baton down, its holder sets `own->control().asleep`, and `expecting` if it expects something, and takes
/// the baton again if any link is `readable()`. From then on every event that makes a link readable, and that these
/// words ask for, writes this rank's eventfd.
///
/// The holder of the baton uses it. Shares ownership of both segments.
class ShmControlLink : public ControlLink {
 public:
  explicit ShmControlLink(LocalPair pair);

  void send(std::span<const std::byte> frame, Urgency urgency = Urgency::kRing) override;
  bool flush() override;
  std::optional<Frame> receive() override;
  bool readable() const override;
  /// The link does not notice the peer's death; its pidfd or `LocalPeer::life` does.
  Status status() const override;
  void close_send() override;

 private:
  static constexpr size_t kLengthBytes = 4;

  void write(std::span<const std::byte> head, std::span<const std::byte> body = {});
  void wake_peer(Urgency urgency = Urgency::kRing);
  bool take_length();
  bool take_frame();
  std::string peer_name() const;

  LocalPair pair_;
  RingWriter writer_;
  RingReader reader_;
  Status ended_;                  ///< why no more frames come
  Status refused_;                ///< why no more frames leave
  bool send_closed_ = false;      ///< by `close_send` or by a frame over the limit
  std::vector<std::byte> queue_;  ///< what the ring had no room for
  size_t queue_begin_ = 0;        ///< what of the queue has left
  std::array<std::byte, kLengthBytes> length_{};
  size_t length_taken_ = 0;
  Frame frame_;
  size_t frame_taken_ = 0;
};

}  // namespace rueda::core
