#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core {

/// Abstract Unix sockets (unix(7)) that keep packets whole (SOCK_SEQPACKET) and pass descriptors. All non-blocking and
/// close-on-exec; any thread. `name` has no leading NUL byte.

/// 128 random bits in hex.
Result<std::string> random_socket_name();
/// kSystem: names the call.
Result<UniqueFd> listen_abstract(const std::string& name);

/// A connection, or the errno why not: EAGAIN while the listener's queue is full, ECONNREFUSED if nobody listens in
/// this network namespace.
struct DialledSocket {
  UniqueFd fd;
  int error = 0;
};
DialledSocket dial_abstract(const std::string& name);
/// A connection, or the errno why not: EAGAIN when nobody waits.
struct AcceptedSocket {
  UniqueFd fd;
  int error = 0;
};
AcceptedSocket accept_one(int listener);

/// Ok if the process at the other end runs as our user.
Status check_same_user(int socket);
/// True if the other end is in this process.
bool in_this_process(int socket);

/// Sends one packet with descriptors, which stay the caller's. Packets are far smaller than the socket's buffer; what
/// cannot be sent because the peer has gone shows as end of file when reading.
void send_packet(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors = {});

/// What a read has found.
enum class PacketKind { kNone, kPacket, kEnd };

struct Packet {
  PacketKind kind = PacketKind::kNone;
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> descriptors;
};
/// Takes one packet. More than `max_bytes` or `max_descriptors` is cut off; the kernel closes what is cut.
Packet receive_packet(int socket, size_t max_bytes, size_t max_descriptors);

}  // namespace rueda::core
