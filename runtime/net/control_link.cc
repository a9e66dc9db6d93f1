// The ends of a control link that every implementation reports in the same words. Shared memory, TCP and a fabric
// notice them at different moments, but a user who compares two runs should meet one sentence.
#include "runtime/net/control_link.h"

namespace rueda::core {
namespace {

std::string of_bytes(size_t bytes) {
  return std::to_string(bytes) + " bytes; the limit is " + std::to_string(kMaxFrameBytes);
}

}  // namespace

Status refused_frame(const std::string& peer, int rank, size_t bytes) {
  return {Code::kSystem, "a control frame to " + peer + " has " + of_bytes(bytes), rank};
}

Status oversized_frame(const std::string& peer, int rank, size_t bytes) {
  return {Code::kPeerLost, peer + " sent a control frame of " + of_bytes(bytes), rank};
}

Status ended_by_peer(const std::string& peer, int rank) {
  return {Code::kShutDown, peer + " has ended its side of the control connection", rank};
}

}  // namespace rueda::core
