#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/net/unix_socket.h"

namespace rueda::core::launcher {

/// How long a visitor waits for an answer of a running hvdrun: twice the patience that `hvdrun --dump` has with ranks,
/// its second look, and time for a loaded machine.
inline constexpr std::chrono::seconds kAnswerLimit{15};
/// How long a desk that could not let a visitor in waits for a descriptor: the visitor is still there, so an immediate
/// retry would spin.
inline constexpr std::chrono::milliseconds kVisitorPause{100};

/// Asks a running hvdrun of this user, in this network namespace, at one of its abstract sockets. `desk` is the part of
/// the socket's name before the pid. Sends `request` if it is not empty, and returns the answer, cut off as
/// `receive_packet` does. Blocks for at most kAnswerLimit. Returns kInvalidArgument if no such hvdrun is there, kSystem
/// if it ended before it answered or did not answer in time.
Result<Packet> visit_desk(const std::string& desk, int64_t pid, const std::string& request, size_t max_bytes,
                          size_t max_descriptors);

}  // namespace rueda::core::launcher
