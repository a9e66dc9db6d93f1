// System calls for Unix sockets that keep packets whole and carry descriptors (unix(7), cmsg(3)). A packet arrives
// whole or not at all, so callers compare its length and need no framing.
#include "runtime/net/unix_socket.h"

#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime/base/shortage.h"

namespace rueda::core {
namespace {

constexpr int kUnixBacklog = 1024;  // the kernel cuts it to net.core.somaxconn
constexpr size_t kMostDescriptors = 8;

struct Address {
  sockaddr_un un{};
  socklen_t bytes = 0;
};

/// An abstract name begins with a NUL byte and ends with the address's length, not with another NUL.
Address abstract_address(const std::string& name) {
  Address address;
  address.un.sun_family = AF_UNIX;
  const size_t count = std::min(name.size(), sizeof(address.un.sun_path) - 1);
  std::memcpy(address.un.sun_path + 1, name.data(), count);
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + count);
  return address;
}

Status failed(const char* call) {
  return Status(Code::kSystem, std::string("local socket: ") + call + ": " + reason_of(errno));
}

UniqueFd open_socket() { return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

bool credentials(int socket, ucred& peer) {
  socklen_t bytes = sizeof(peer);
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0;
}

std::vector<UniqueFd> descriptors_of(msghdr& message) {
  std::vector<UniqueFd> descriptors;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      descriptors.emplace_back(fd);
    }
  }
  return descriptors;
}

}  // namespace

Result<std::string> random_socket_name() {
  std::array<uint8_t, 16> bits{};
  while (::getrandom(bits.data(), bits.size(), 0) != static_cast<ssize_t>(bits.size())) {
    if (errno != EINTR) return failed("getrandom");
  }
  constexpr char kDigits[] = "0123456789abcdef";
  std::string name = "rueda-";
  for (const uint8_t byte : bits) {
    name += kDigits[byte >> 4];
    name += kDigits[byte & 15];
  }
  return name;
}

Result<UniqueFd> listen_abstract(const std::string& name) {
  ListeningSocket listening = try_to_listen_abstract(name);
  if (listening.fd.valid()) return std::move(listening.fd);
  errno = listening.error;
  return failed(listening.call);
}

ListeningSocket try_to_listen_abstract(const std::string& name) {
  UniqueFd fd = open_socket();
  if (!fd.valid()) return {{}, errno, "socket"};
  const Address address = abstract_address(name);
  const auto* const generic = reinterpret_cast<const sockaddr*>(&address.un);
  if (::bind(fd.get(), generic, address.bytes) != 0) return {{}, errno, "bind"};
  if (::listen(fd.get(), kUnixBacklog) != 0) return {{}, errno, "listen"};
  return {std::move(fd)};
}

DialledSocket dial_abstract(const std::string& name) {
  DialledSocket dialled{open_socket(), 0};
  const Address address = abstract_address(name);
  if (!dialled.fd.valid()) {
    dialled.error = errno;
  } else if (::connect(dialled.fd.get(), reinterpret_cast<const sockaddr*>(&address.un), address.bytes) != 0) {
    dialled.error = errno;
    dialled.fd.reset();
  }
  return dialled;
}

AcceptedSocket accept_one(int listener) {
  for (;;) {
    AcceptedSocket accepted{UniqueFd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)), 0};
    if (accepted.fd.valid()) return accepted;
    accepted.error = errno;
    if (accepted.error != EINTR && accepted.error != ECONNABORTED) return accepted;
  }
}

Status check_same_user(int socket) {
  ucred peer{};
  if (!credentials(socket, peer)) return failed("SO_PEERCRED");
  if (peer.uid == ::geteuid()) return {};
  return Status(Code::kSystem, "local socket: process " + std::to_string(peer.pid) + " runs as user " +
                                   std::to_string(peer.uid) + "; this one runs as " + std::to_string(::geteuid()));
}

bool in_this_process(int socket) {
  ucred peer{};
  return credentials(socket, peer) && peer.pid == ::getpid();
}

void send_packet(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors) {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kMostDescriptors * sizeof(int))> control{};
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};  // sendmsg does not write to it
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  const size_t count = std::min(descriptors.size(), kMostDescriptors);
  if (count > 0) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(header), descriptors.data(), count * sizeof(int));
  }
  while (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

Packet receive_packet(int socket, size_t max_bytes, size_t max_descriptors) {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kMostDescriptors * sizeof(int))> control{};
  Packet packet;
  packet.bytes.resize(max_bytes);
  iovec part{packet.bytes.data(), packet.bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (max_descriptors > 0) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(std::min(max_descriptors, kMostDescriptors) * sizeof(int));
  }
  ssize_t got = 0;
  do {
    // A peer that closed without reading all leaves one ECONNRESET ahead of its last packets.
    got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && (errno == EINTR || errno == ECONNRESET));
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return packet;
  packet.kind = got > 0 ? PacketKind::kPacket : PacketKind::kEnd;
  packet.bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
  packet.descriptors = descriptors_of(message);
  return packet;
}

}  // namespace rueda::core
