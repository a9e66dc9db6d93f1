// One connection of a `LocalExchange` as a state machine: `step` takes one packet and answers it. Each packet is a
// message of fixed size, so a length that does not fit ends the conversation at once.
//
//   hello, as on TCP  | first | second | third |             proves the job's key in both directions
//   pass              | "RDP1" | which descriptors |         with segment, doorbell and, if there are, pidfd and arena
//   verdict           | "RDV1" | 1 mapped, 0 not |           both words u32 in the host's byte order: it never leaves
//   it
//
// Descriptors move only after the proof. The verdicts make both sides agree on whether they share memory: a rank that
// mapped its peer while the peer failed would wait for words that never change.
#include "runtime/net/local_conversation.h"

#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/base/log.h"

namespace rueda::core {
namespace {

constexpr size_t kMaxPacketBytes = 128;
constexpr size_t kMaxDescriptors = 4;  // segment, doorbell, pidfd, arena

/// The packets after the hello.
struct Note {
  uint32_t magic;
  uint32_t value;
};
constexpr uint32_t kPassMagic = 0x31'50'44'52;     // "RDP1", little-endian; value: bits below
constexpr uint32_t kVerdictMagic = 0x31'56'44'52;  // "RDV1"; value: 1 mapped, 0 not
/// What a pass brings behind segment and doorbell, in this order.
constexpr uint32_t kPassesPidfd = 1;
constexpr uint32_t kPassesArena = 2;

size_t number_passed(uint32_t bits) { return 2 + static_cast<size_t>(std::popcount(bits)); }

void send_note(int socket, const Note& note, std::span<const int> descriptors = {}) {
  send_packet(socket, std::as_bytes(std::span(&note, 1)), descriptors);
}

/// The packet as a message of fixed size, if it has that size.
template <typename Message>
std::optional<Message> as(std::span<const std::byte> bytes) {
  Message message;
  if (bytes.size() != sizeof(message)) return std::nullopt;
  std::memcpy(&message, bytes.data(), sizeof(message));
  return message;
}

Status unexpected(int rank) {
  return Status(Code::kSystem, "local socket: rank " + std::to_string(rank) + " sent a packet outside the protocol",
                rank);
}

}  // namespace

LocalConversation::LocalConversation(const LocalContext& context, UniqueFd socket, int listener)
    : context_(context),
      socket_(std::move(socket)),
      state_(State::kAwaitsSecond),
      dialler_(HelloDialler(context.scope, listener, HelloPurpose::kLocal, 0)),
      patience_(Deadline::never()) {
  const auto first = dialler_->first();
  if (const Status user = check_same_user(socket_.get()); !user.ok()) {
    refuse(user);
  } else if (!first.ok()) {
    refuse(first.status());
  } else {
    send_packet(socket_.get(), first.value());
  }
}

LocalConversation::LocalConversation(const LocalContext& context, UniqueFd socket, Deadline patience)
    : context_(context),
      socket_(std::move(socket)),
      state_(State::kAwaitsFirst),
      listener_(HelloListener(context.scope)),
      patience_(patience) {
  if (const Status user = check_same_user(socket_.get()); !user.ok()) refuse(user);
}

int LocalConversation::rank() const {
  if (dialler_) return dialler_->route().listener;
  return state_ == State::kAwaitsFirst ? -1 : listener_->route().dialler;
}

void LocalConversation::step() {
  // Descriptors are taken from proven peers only; the kernel closes those of others.
  Packet packet = receive_packet(socket_.get(), kMaxPacketBytes, proven_ ? kMaxDescriptors : 0);
  if (packet.kind == PacketKind::kNone) return;
  if (packet.kind == PacketKind::kEnd) {
    state_ = State::kLost;
    return;
  }
  handle(std::move(packet));
}

void LocalConversation::handle(Packet packet) {
  switch (state_) {
    case State::kAwaitsFirst: return on_first(packet.bytes);
    case State::kAwaitsSecond: return on_second(packet.bytes);
    case State::kAwaitsThird: return on_third(packet.bytes);
    case State::kAwaitsPass: return on_pass(std::move(packet));
    case State::kAwaitsVerdict: return on_verdict(packet.bytes);
    case State::kDone:
    case State::kRefused:
    case State::kLost: return;
  }
}

void LocalConversation::on_first(std::span<const std::byte> bytes) {
  const auto first = as<HelloFirst>(bytes);
  if (!first) return refuse(unexpected(-1));
  const auto second = listener_->on_first(*first);
  if (!second.ok()) return refuse(second.status());
  send_packet(socket_.get(), second.value());
  state_ = State::kAwaitsThird;
}

void LocalConversation::on_second(std::span<const std::byte> bytes) {
  const auto second = as<HelloSecond>(bytes);
  if (!second) return refuse(unexpected(rank()));
  const auto third = dialler_->on_second(*second);
  if (!third.ok()) return refuse(third.status());
  proven_ = true;
  send_packet(socket_.get(), third.value());
  pass_descriptors();
}

void LocalConversation::on_third(std::span<const std::byte> bytes) {
  const auto third = as<HelloThird>(bytes);
  if (!third) return refuse(unexpected(rank()));
  if (const Status proof = listener_->on_third(*third); !proof.ok()) return refuse(proof);
  const HelloRoute& route = listener_->route();
  // The higher rank dials, always: two connections between one pair would map everything twice.
  if (route.purpose != HelloPurpose::kLocal || route.dialler < route.listener) return refuse(unexpected(rank()));
  proven_ = true;
  patience_ = Deadline::never();  // the exchange's own deadline still holds
  pass_descriptors();
}

void LocalConversation::pass_descriptors() {
  std::vector<int> all{context_.offer.segment.fd(), context_.offer.doorbell};
  uint32_t bits = 0;
  if (context_.pidfd >= 0) {
    bits |= kPassesPidfd;
    all.push_back(context_.pidfd);
  }
  if (context_.offer.arena != nullptr) {
    bits |= kPassesArena;
    all.push_back(context_.offer.arena->fd());
  }
  send_note(socket_.get(), Note{kPassMagic, bits}, all);
  state_ = State::kAwaitsPass;
}

void LocalConversation::on_pass(Packet packet) {
  const auto note = as<Note>(packet.bytes);
  if (!note || note->magic != kPassMagic) return refuse(unexpected(rank()));
  auto& descriptors = packet.descriptors;
  if (note->value > (kPassesPidfd | kPassesArena)) return refuse(unexpected(rank()));
  const size_t expected = number_passed(note->value);
  if (descriptors.size() != expected) {
    return refuse(Status(Code::kSystem,
                         "local socket: rank " + std::to_string(rank()) + " sent " + std::to_string(expected) +
                             " descriptors and " + std::to_string(descriptors.size()) +
                             " came (the limit on open files may be reached)",
                         rank()));
  }
  passed_ = true;
  auto segment = Segment::map(descriptors[0].get(), context_.offer.segment.layout(), context_.scope.epoch, rank());
  send_note(socket_.get(), Note{kVerdictMagic, segment.ok() ? 1u : 0u});
  if (!segment.ok()) return refuse(segment.status());
  peer_.rank = rank();
  peer_.segment = std::move(segment).value();
  peer_.doorbell = std::move(descriptors[1]);
  // A pidfd of this very process says nothing about a rank that is one of its threads.
  const bool has_pidfd = (note->value & kPassesPidfd) != 0;
  if (has_pidfd && !in_this_process(socket_.get())) peer_.pidfd = std::move(descriptors[2]);
  if ((note->value & kPassesArena) != 0) map_arena(descriptors.back().get());
  state_ = State::kAwaitsVerdict;
}

/// Without the peer's arena the two still share all else: only tensors in shared memory go another way.
void LocalConversation::map_arena(int fd) {
  auto arena = TensorArena::map(fd, rank());
  if (arena.ok()) {
    peer_.arena = std::move(arena).value();
  } else {
    log(LogLevel::kInfo, "init: tensors of rank {} are not read in place: {}", rank(), arena.status().sentence());
  }
}

void LocalConversation::on_verdict(std::span<const std::byte> bytes) {
  const auto note = as<Note>(bytes);
  if (!note || note->magic != kVerdictMagic) return refuse(unexpected(rank()));
  if (note->value != 1) {
    return refuse(
        Status(Code::kSystem, "shared memory: rank " + std::to_string(rank()) + " could not map our segment", rank()));
  }
  state_ = State::kDone;
}

void LocalConversation::refuse(Status status) {
  status_ = std::move(status);
  state_ = State::kRefused;
}

LocalPeer LocalConversation::take_peer() {
  peer_.life = std::move(socket_);
  return std::move(peer_);
}

}  // namespace rueda::core
