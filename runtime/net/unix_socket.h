#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core {

/// Abstract Unix sockets (unix(7)) that keep packets whole (SOCK_SEQPACKET) and pass descriptors. All are non-blocking
/// and close-on-exec; any thread. `name` has no leading NUL byte.

/// "rueda-" and 128 random bits in hex. Returns kSystem if the kernel gives none.
Result<std::string> random_socket_name();
/// Returns kSystem with the call that failed.
Result<UniqueFd> listen_abstract(const std::string& name);
/// A listener, or the errno that says why there is none: EADDRINUSE if another socket has the name.
struct ListeningSocket {
  UniqueFd fd;
  int error = 0;
  const char* call = "";  ///< that failed
};
ListeningSocket try_to_listen_abstract(const std::string& name);

/// A connection, or the errno that says why there is none: EAGAIN while the listener's queue is full, ECONNREFUSED if
/// no socket of this network namespace listens at the name.
struct DialledSocket {
  UniqueFd fd;
  int error = 0;
};
DialledSocket dial_abstract(const std::string& name);
/// A connection, or the errno that says why there is none: EAGAIN if no connection waits.
struct AcceptedSocket {
  UniqueFd fd;
  int error = 0;
};
AcceptedSocket accept_one(int listener);

/// Returns ok if the process at the other end runs as this process's user.
Status check_same_user(int socket);
/// Returns true if the other end is in this process.
bool in_this_process(int socket);

/// Sends one packet with descriptors, which stay the caller's. Packets are far smaller than the socket's buffer.
/// Reports no failure: a peer that is gone shows as the end of the stream when reading.
void send_packet(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors = {});

/// What a read has found.
enum class PacketKind { kNone, kPacket, kEnd };

struct Packet {
  PacketKind kind = PacketKind::kNone;
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> descriptors;
};
/// Takes one packet. Cuts off bytes beyond `max_bytes` and descriptors beyond `max_descriptors`, which the kernel
/// closes.
Packet receive_packet(int socket, size_t max_bytes, size_t max_descriptors);

}  // namespace rueda::core
