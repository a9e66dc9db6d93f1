#pragma once
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "runtime/net/channel.h"
#include "runtime/net/secure_stream.h"

namespace rueda::core {

/// One peer's byte stream over several sockets, for networks that one connection does not fill. The stream travels in
/// frames that carry their position: a free socket takes the next frame, so a slow socket holds up only the frame it
/// has, and bytes go straight into the buffer that wants them. Lane thread.
///
/// Frame: 8 bytes of position in the stream, 4 bytes of length (little endian), the bytes.
class StripedChannel : public Channel {
 public:
  /// The longest frame: long enough for few system calls, short enough that the last frames of a message end together.
  static constexpr size_t kMostFrameBytes = 128 << 10;
  static constexpr size_t kHeadBytes = 12;

  /// How long the other sockets may bring nothing once the peer has closed one. A peer that leaves closes all of them,
  /// and everything it sent comes before these ends.
  static constexpr std::chrono::milliseconds kPatience{5000};

  /// `streams` are at least one, of `io`, in any order: it does not matter which of the peer's streams is at the other
  /// end. `broken` is called as `TcpChannel` calls it.
  StripedChannel(boost::asio::io_context& io, std::vector<std::unique_ptr<SecureStream>> streams,
                 std::function<void(const Status&)> broken, std::chrono::milliseconds patience = kPatience);
  ~StripedChannel() override;
  /// From now on sends take the first so many open sockets; all at the start. The peer reads from all of them whatever
  /// this end uses.
  void use(int sockets) { used_ = sockets; }
  void send(std::span<const std::byte> bytes) override;
  void receive(std::span<std::byte> bytes) override;
  uint64_t sent() const override { return unsent_.empty() ? assigned_ : *unsent_.begin(); }
  uint64_t received() const override { return received_; }

 private:
  struct Socket;
  struct Wanted {
    uint64_t begin;
    std::span<std::byte> into;
  };
  struct StripeFrame {
    size_t length;
    size_t got;
  };

  bool wanted() const { return received_ < wanted_end_; }
  void assign();
  void read_on(Socket& socket);
  void read_head(Socket& socket);
  void read_body(Socket& socket);
  Status take_head(Socket& socket);
  std::span<std::byte> buffer_at(uint64_t position) const;
  void got(Socket& socket, size_t bytes);
  void lost_in_handshake(Socket& socket, const Status& how);
  void ended(Socket& socket, const Status& how);
  void wait_for_others(const Status& how);
  void fail(const Status& status);

  const std::chrono::milliseconds patience_;
  boost::asio::steady_timer others_;  // runs from the end of one socket on
  bool waiting_ = false;              // for the others
  std::shared_ptr<int> life_ = std::make_shared<int>();
  std::function<void(const Status&)> broken_;  // empty once called
  std::vector<std::unique_ptr<Socket>> sockets_;
  int used_ = std::numeric_limits<int>::max();
  std::deque<std::span<const std::byte>> sending_;  // no socket has them yet
  uint64_t assigned_ = 0;                           // bytes that a socket has or had
  std::set<uint64_t> unsent_;                       // positions of frames that a socket has
  std::deque<Wanted> receiving_;                    // in the stream's order, until received without a gap
  uint64_t wanted_end_ = 0;
  std::map<uint64_t, StripeFrame> frames_;  // begun and not yet wholly part of `received_`, by position
  uint64_t received_ = 0;
};

}  // namespace rueda::core
