// Channels of every implementation behind one factory. The TCP ones go through whole transports, because a channel set
// depends on the coordinator thread to hand its sockets over.
#include "tests/support/channel_kinds.h"

#include <algorithm>
#include <future>
#include <utility>

#include "tests/support/deadlines.h"
#include "tests/support/memory_fabric.h"
#include "tests/support/tcp_ranks.h"

namespace rueda::core {
namespace {

using Bytes = std::vector<std::byte>;

/// A set that has used its first connections, and uses further ones from now on.
class FurtherChannelSet : public ChannelSet {
 public:
  FurtherChannelSet(std::unique_ptr<ChannelSet> set, int sockets) : set_(std::move(set)), sockets_(sockets) {}
  Result<Channel*> to(int rank, Deadline deadline) override {
    set_->use_sockets(0);
    if (auto first = set_->to(rank, deadline); !first.ok()) return first;
    set_->use_sockets(sockets_);
    return set_->to(rank, deadline);
  }
  Status until(const std::function<bool()>& ready, Deadline deadline) override { return set_->until(ready, deadline); }
  void poll() override { set_->poll(); }
  void wake() override { set_->wake(); }

 private:
  std::unique_ptr<ChannelSet> set_;
  int sockets_;
};

class TcpChannelRanks : public ChannelRanks {
 public:
  TcpChannelRanks(int size, const TcpRanks::Options& options, int further) : ranks_(size, options), further_(further) {}
  std::unique_ptr<ChannelSet> set(int rank, const Abort& abort) override {
    auto set = ranks_.transport(rank).channel_set(0, abort);
    if (further_ == 0) return set;
    return std::make_unique<FurtherChannelSet>(std::move(set), further_);
  }
  void wake_all() override {
    for (int rank = 0; rank < ranks_.size(); ++rank) ranks_.transport(rank).wake_all();
  }

 private:
  TcpRanks ranks_;
  int further_;
};

template <bool kKey, bool kTls, int kSockets, int kFurther = 0>
std::unique_ptr<ChannelRanks> over_tcp(int size) {
  TcpRanks::Options options;
  options.keyed = kKey;
  options.encrypt_data = kTls;
  options.sockets_per_peer = kSockets;
  return std::make_unique<TcpChannelRanks>(size, options, kFurther);
}

class FabricChannelRanks : public ChannelRanks {
 public:
  explicit FabricChannelRanks(int size) : hub_(size) {
    for (int rank = 0; rank < size; ++rank) fabrics_.push_back(hub_.fabric(rank));
  }
  std::unique_ptr<ChannelSet> set(int rank, const Abort& abort) override {
    return fabrics_[static_cast<size_t>(rank)]->channel_set(0, abort);
  }
  void wake_all() override {
    for (const auto& fabric : fabrics_) fabric->wake_all();
  }

 private:
  FabricHub hub_;
  std::vector<std::shared_ptr<Fabric>> fabrics_;
};

std::unique_ptr<ChannelRanks> over_fabric(int size) { return std::make_unique<FabricChannelRanks>(size); }

}  // namespace

const std::vector<ChannelKind>& channel_kinds() {
  static const std::vector<ChannelKind> kinds = {
      {"TCP", true, over_tcp<true, false, 1>},
      {"TCP without a key", true, over_tcp<false, false, 1>},
      {"TCP over TLS", true, over_tcp<true, true, 1>},
      {"striped over 3 sockets", true, over_tcp<true, false, 3>},
      {"striped over 3 sockets with TLS", true, over_tcp<true, true, 3>},
      {"2 further sockets", true, over_tcp<true, false, 1, 2>},
      {"4 further sockets with TLS", true, over_tcp<true, true, 1, 4>},
      {"fabric in memory", false, over_fabric},
  };
  return kinds;
}

Bytes stream_bytes(size_t bytes, int from, int to) {
  Bytes result(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    result[i] = static_cast<std::byte>((i * 7 + i / 253 + static_cast<size_t>(from * 16 + to)) & 0xff);
  }
  return result;
}

Status exchange_all(ChannelSet& set, int rank, int size, size_t bytes) {
  struct Peer {
    Channel* channel = nullptr;
    Bytes out, in;
    uint64_t sent = 0, received = 0;  // totals at which all has moved
  };
  std::vector<Peer> peers(static_cast<size_t>(size));
  for (int other = 0; other < size; ++other) {
    if (other == rank) continue;
    Peer& peer = peers[static_cast<size_t>(other)];
    auto channel = set.to(other, late());
    if (!channel.ok()) return channel.status();
    peer = {channel.value(), stream_bytes(bytes, rank, other), Bytes(bytes), channel.value()->sent() + bytes,
            channel.value()->received() + bytes};
    peer.channel->send(peer.out);
    peer.channel->receive(peer.in);
  }
  const auto moved = [](const Peer& peer) {
    return peer.channel == nullptr || (peer.channel->sent() >= peer.sent && peer.channel->received() >= peer.received);
  };
  const auto all_moved = [&] { return std::all_of(peers.begin(), peers.end(), moved); };
  if (Status status = set.until(all_moved, late()); !status.ok()) return status;
  for (int other = 0; other < size; ++other) {
    if (other != rank && peers[static_cast<size_t>(other)].in != stream_bytes(bytes, other, rank))
      return {Code::kMismatch, "rank " + std::to_string(rank) + " got wrong bytes of " + std::to_string(other)};
  }
  return {};
}

std::string failures_on_all(int size, const std::function<Status(int)>& body) {
  std::vector<std::future<Status>> results;
  for (int rank = 0; rank < size; ++rank) results.push_back(std::async(std::launch::async, body, rank));
  std::string failures;
  for (auto& result : results) failures += result.get().sentence();
  return failures;
}

}  // namespace rueda::core
