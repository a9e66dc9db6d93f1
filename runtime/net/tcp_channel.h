#pragma once
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/abort.h"
#include "runtime/net/channel.h"
#include "runtime/net/loop_wait.h"
#include "runtime/net/path_watch.h"
#include "runtime/net/secure_stream.h"
#include "runtime/net/transport_epoch.h"

namespace rueda::core {

class LaneLoop;
class StripedChannel;

/// One data connection. Bytes move straight between the socket and the caller's memory. Lane thread.
class TcpChannel : public Channel {
 public:
  /// Begins the handshake, which is empty on a plain stream. Sends and receives queued before it is done wait for it,
  /// so no rank blocks in `to` for a peer's lane. `broken` is called at most once, inside the loop.
  TcpChannel(std::unique_ptr<SecureStream> stream, std::function<void(const Status&)> broken);
  void send(std::span<const std::byte> bytes) override;
  void receive(std::span<std::byte> bytes) override;
  uint64_t sent() const override { return sent_; }
  uint64_t received() const override { return received_; }

 private:
  void send_next();
  void receive_next();
  void fail(const Status& status);

  std::unique_ptr<SecureStream> stream_;
  std::function<void(const Status&)> broken_;       // empty once called
  bool open_ = false;                               // the handshake is done
  std::deque<std::span<const std::byte>> sending_;  // the stream is writing the first one
  std::deque<std::span<std::byte>> receiving_;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
};

/// The data connections of one lane. Lane thread; the listener hands sockets over through the `LaneLoop`. Reads a
/// stream only while a receive is queued, so a peer that closes after its last batch disturbs no other exchange.
///
/// With `use_sockets` above 1 the channels to ranks of other hosts are further connections, beside the first. They are
/// opened in the first batch that wants them and finds the first connection used before:
///
///   higher rank   dials kFurtherSockets ─▶ tells over the first connection how many it got (u8) ─▶ uses these
///   lower rank    reads that number ─▶ takes as many, which its listener has accepted ─▶ uses these
///
/// None of them may come about, if a port or a firewall refuses more: then both ends know it, and use the first one.
class TcpChannelSet : public ChannelSet {
 public:
  /// `epoch`, `paths` and `abort` outlive the set.
  TcpChannelSet(std::shared_ptr<LaneLoop> loop, uint32_t lane, const TransportEpoch& epoch, PathWatch& paths,
                const Abort& abort);
  /// Further connections to a peer, and for how long its dialler tries to get them.
  static constexpr size_t kFurtherSockets = 4;
  static constexpr std::chrono::seconds kFurtherTime{1};
  ~TcpChannelSet() override;
  Result<Channel*> to(int rank, Deadline deadline) override;
  void use_sockets(int sockets) override { sockets_ = sockets; }
  Status until(const std::function<bool()>& ready, Deadline deadline) override;
  void poll() override;
  void wake() override;

 private:
  using Streams = std::vector<std::unique_ptr<SecureStream>>;
  Result<std::unique_ptr<SecureStream>> connect(int rank, uint32_t socket, const LoopWait& wait);
  Result<Channel*> first_to(int rank, Deadline deadline);
  Result<StripedChannel*> further_to(int rank, Channel& first, Deadline deadline);
  Result<Streams> dial_further(int rank, Channel& first, Deadline deadline);
  Result<Streams> take_further(int rank, Channel& first, Deadline deadline);
  void watch(int rank, const SecureStream& stream);
  void broke(int rank, const Status& why);

  std::shared_ptr<LaneLoop> loop_;
  uint32_t lane_;
  const TransportEpoch& epoch_;
  PathWatch& paths_;
  std::vector<uint64_t> watched_;  // in `paths_`
  const Abort& abort_;
  Status failure_;  // why a channel broke or a wait failed: nothing moves any more
  std::map<int, std::unique_ptr<Channel>> channels_;
  int sockets_ = 0;                                         // as in `use_sockets`
  std::byte told_{};                                        // a number of further connections on its way
  std::map<int, std::unique_ptr<StripedChannel>> further_;  // null: the peer or the network allows none
};

}  // namespace rueda::core
