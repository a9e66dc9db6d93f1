// What ranks of one host give each other: the packets that bring descriptors, and the addresses of rows in shared
// memory.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "ops/cpu/shared_rows.h"
#include "runtime/net/local_conversation.h"
#include "tests/fuzz/targets.h"

namespace rueda::fuzz {
namespace {

using namespace rueda::core;

constexpr uint64_t kEpoch = 7;
constexpr int kHere = 1;
constexpr size_t kMostSent = 5;  ///< descriptors with a packet: one more than a conversation takes
constexpr size_t kRows = 3;      ///< tensors of a batch of rows

HelloScope local_scope(int rank) {
  HelloScope scope;
  scope.job = "job";
  scope.epoch = kEpoch;
  scope.rank = rank;
  scope.size = 3;
  return scope;
}

/// Rank 1 and what its peers, ranks 0 and 2, may send with a packet. Made once: it takes longer than a conversation.
struct LocalRoom {
  static SegmentLayout layout() {
    SegmentLayout layout;
    layout.local_size = layout.rings = 3;
    layout.lanes = layout.slots = 1;
    layout.slot_bytes = 4096;
    layout.ring_bytes = 256;
    return layout;
  }
  std::shared_ptr<Segment> own = Segment::create(layout(), kEpoch, kHere).value();
  std::shared_ptr<Segment> lower = Segment::create(layout(), kEpoch, 0).value();
  std::shared_ptr<Segment> higher = Segment::create(layout(), kEpoch, 2).value();
  std::shared_ptr<Segment> stale = Segment::create(layout(), kEpoch - 1, 2).value();
  std::shared_ptr<TensorArena> arena = TensorArena::create(1).value();
  UniqueFd doorbell{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  UniqueFd file{::memfd_create("no segment", MFD_CLOEXEC)};
  HelloScope scope = local_scope(kHere);
  LocalOffer offer{*own, doorbell.get(), arena.get()};
  LocalContext context{scope, offer, -1};
  std::array<int, 6> descriptors{lower->fd(), higher->fd(), doorbell.get(), arena->fd(), stale->fd(), file.get()};
};

/// Returns the lowest free descriptor from `least` on.
int free_descriptor(const LocalRoom& room, int least) {
  return UniqueFd(::fcntl(room.doorbell.get(), F_DUPFD_CLOEXEC, least)).get();
}

template <typename Message>
Message receive_as(int socket) {
  const Packet packet = receive_packet(socket, sizeof(Message), 0);
  Message message{};
  hold(packet.kind == PacketKind::kPacket && packet.bytes.size() == message.size());
  std::copy(packet.bytes.begin(), packet.bytes.end(), message.begin());
  return message;
}

/// The peer's half of an honest hello.
void prove(LocalConversation& conversation, int far) {
  if (conversation.dialled()) {
    HelloListener peer(local_scope(0));
    send_packet(far, peer.on_first(receive_as<HelloFirst>(far)).value());
    conversation.step();
    hold(peer.on_third(receive_as<HelloThird>(far)).ok());
  } else {
    HelloDialler peer(local_scope(2), kHere, HelloPurpose::kLocal, 0);
    send_packet(far, peer.first().value());
    conversation.step();
    send_packet(far, peer.on_second(receive_as<HelloSecond>(far)).value());
    conversation.step();
  }
  hold(conversation.proven());
}

/// One packet of the input and the descriptors beside it:
///
///   length (u8) | number (u8) | which of the room's (5 times u8) | bytes
Bytes send_next(Bytes& bytes, int far, const LocalRoom& room) {
  const size_t length = std::to_integer<size_t>(bytes[0]);
  const size_t head = std::min(bytes.size(), 2 + kMostSent);
  const size_t number = head == 2 + kMostSent ? std::to_integer<size_t>(bytes[1]) % (kMostSent + 1) : 0;
  std::vector<int> descriptors;
  for (const std::byte one : bytes.subspan(head == 2 + kMostSent ? 2 : head, number)) {
    descriptors.push_back(room.descriptors[std::to_integer<size_t>(one) % room.descriptors.size()]);
  }
  bytes = bytes.subspan(head);
  const Bytes packet = bytes.first(std::min(length, bytes.size()));
  bytes = bytes.subspan(packet.size());
  send_packet(far, packet, descriptors);
  return packet;
}

/// The first byte says which side rank 1 is (bit 0), and whether the peer knows the key (bit 1). Nobody without the key
/// may be believed, nothing that is wrong may end in shared memory, and no descriptor may stay behind.
void fuzz_local(Bytes bytes) {
  if (bytes.empty()) return;
  static LocalRoom room;
  const bool dials = (std::to_integer<unsigned>(bytes[0]) & 1) != 0,
             honest = (std::to_integer<unsigned>(bytes[0]) & 2) != 0;
  bytes = bytes.subspan(1);
  // The socket pair has the first two that are free; what comes with packets has the next.
  const int behind_pair = free_descriptor(room, free_descriptor(room, 0) + 1) + 1;
  const int next = free_descriptor(room, behind_pair);
  {
    int fds[2];
    hold(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
    const UniqueFd far(fds[1]);
    LocalConversation conversation = dials ? LocalConversation(room.context, UniqueFd(fds[0]), 0)
                                           : LocalConversation(room.context, UniqueFd(fds[0]), Deadline::never());
    if (honest) prove(conversation, far.get());
    Bytes last;
    while (!bytes.empty() && !conversation.over()) {
      last = send_next(bytes, far.get(), room);
      conversation.step();
    }
    hold(conversation.proven() == honest);
    hold(honest || !conversation.passed());
    hold((conversation.state() == LocalConversation::State::kRefused) == !conversation.status().ok());
    if (conversation.state() == LocalConversation::State::kDone) {
      const int expected = dials ? 0 : 2;
      const LocalPeer peer = conversation.take_peer();
      hold(peer.rank == expected && peer.segment && peer.segment->base() == (dials ? room.lower : room.higher)->base());
      hold(peer.doorbell.get() >= 0);
      hold(text_of(last) == std::string_view("RDV1\1\0\0\0", 8));
    }
  }
  hold(free_descriptor(room, behind_pair) == next);
}

/// Drops what is too long for a test, and gives the rest exactly the memory that it announced.
class FuzzedArrivals final : public Arrivals {
 public:
  std::byte* place(size_t tensor, std::span<const int64_t> rows) override {
    constexpr int64_t kMostRows = 1024;
    int64_t all = 0;
    for (const int64_t count : rows) {
      hold(count >= 0);
      all += std::min(count, kMostRows + 1);
    }
    if (all > kMostRows) return nullptr;
    memory_[tensor].resize(static_cast<size_t>(all) * row_bytes[tensor]);
    return memory_[tensor].data();
  }
  std::array<size_t, kRows> row_bytes{};

 private:
  std::array<std::vector<std::byte>, kRows> memory_;
};

/// Counts and addresses of rows as ranks 0 and 2 post them for rank 1. The first byte picks the operation. What is
/// accepted lies inside the sender's arena, and no more arrives than was announced.
void fuzz_shared_rows(Bytes bytes) {
  if (bytes.empty()) return;
  constexpr std::array kKinds{OpKind::kAllgather, OpKind::kAlltoall, OpKind::kGather, OpKind::kScatter};
  static const Team team{{0, 1, 2}, 1, {3}, true, {}};
  static const std::array<std::byte, 256> input{};
  static const std::array<int64_t, 3> parts{1, 2, 0};
  static const std::array<Slice, kRows> slices{Slice{input.data(), nullptr, 3, 1, parts.data()},
                                               Slice{input.data(), nullptr, 48, 16, parts.data()},
                                               Slice{input.data(), nullptr, 0, 0, parts.data()}};
  FuzzedArrivals arrivals;
  Call call;
  call.kind = kKinds[std::to_integer<size_t>(bytes[0]) % kKinds.size()];
  call.slices = slices;
  call.team = &team;
  call.root = call.kind == OpKind::kGather ? kHere : 0;
  call.arrivals = &arrivals;
  bytes = bytes.subspan(1);
  Exchange exchange(call);
  for (size_t t = 0; t < kRows; ++t) arrivals.row_bytes[t] = exchange.row_bytes(t);
  const std::vector<std::byte> arena(4096);
  std::array<std::vector<SharedRows>, 3> posted;
  for (const size_t sender : {size_t{2}, size_t{0}}) {
    if (!exchange.sends(static_cast<int>(sender))) continue;
    std::vector<std::byte> slot(bytes_of_rows(exchange));
    const size_t taken = std::min(bytes.size(), slot.size());
    std::copy_n(bytes.begin(), taken, slot.begin());
    bytes = bytes.subspan(taken);
    posted[sender] = read_rows(slot, exchange);
    std::vector<int64_t> counts;
    for (const SharedRows& rows : posted[sender]) counts.push_back(rows.rows);
    const Status learnt = exchange.learn(static_cast<int>(sender), counts);
    if (!learnt.ok()) return hold(learnt.rank() == static_cast<int>(sender));
  }
  exchange.place();
  for (const int sender : {2, 0}) {
    const auto& rows = posted[static_cast<size_t>(sender)];
    const Status copied = copy_rows(exchange, sender, sender, rows, arena);
    if (!copied.ok()) return hold(copied.rank() == sender);
    for (size_t t = 0; t < rows.size(); ++t) {
      const uint64_t length = static_cast<uint64_t>(rows[t].rows) * exchange.row_bytes(t);
      hold(length == 0 || (length <= arena.size() && rows[t].begin <= arena.size() - length));
    }
  }
}

constexpr Target kLocalTargets[] = {{"local", fuzz_local}, {"shared_rows", fuzz_shared_rows}};

}  // namespace

std::span<const Target> local_targets() { return kLocalTargets; }

}  // namespace rueda::fuzz
