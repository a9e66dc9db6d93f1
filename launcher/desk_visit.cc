// A visit to a desk of another hvdrun: connect, check whose it is, send the request, wait for one packet.

#include "launcher/desk_visit.h"

#include <fmt/format.h>
#include <poll.h>

#include <cerrno>
#include <cstring>
#include <span>

#include "runtime/base/deadline.h"

namespace rueda::core::launcher {

Result<Packet> visit_desk(const std::string& desk, int64_t pid, const std::string& request, size_t max_bytes,
                          size_t max_descriptors) {
  const DialledSocket socket = dial_abstract(fmt::format("{}{}", desk, pid));
  if (!socket.fd.valid()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("no hvdrun with pid {} answers on this machine: {}", pid, std::strerror(socket.error)));
  }
  RUEDA_RETURN_IF_ERROR(check_same_user(socket.fd.get()));
  if (!request.empty()) send_packet(socket.fd.get(), std::as_bytes(std::span(request)));
  pollfd readable{socket.fd.get(), POLLIN, 0};
  const Deadline deadline = Deadline::after(kAnswerLimit);
  int ready = 0;
  do {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left(kAnswerLimit));
    ready = ::poll(&readable, 1, static_cast<int>(left.count()));
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) {
    return Status(Code::kSystem,
                  fmt::format("hvdrun (pid {}) did not answer within {} s; it may be stopped (kill -CONT {}), or serve "
                              "other visitors first",
                              pid, kAnswerLimit.count(), pid));
  }
  Packet packet = receive_packet(socket.fd.get(), max_bytes, max_descriptors);
  if (packet.kind == PacketKind::kPacket) return packet;
  return Status(Code::kSystem, fmt::format("hvdrun (pid {}) ended before it answered", pid));
}

}  // namespace rueda::core::launcher
