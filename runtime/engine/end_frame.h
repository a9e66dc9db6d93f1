#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "runtime/base/status.h"

namespace rueda::core {

/// The control frame by which the end of an epoch travels between rank 0 and the others: code, rank, sentence.
std::vector<std::byte> encode_end(const Status& why);
/// Never returns ok: returns the reason that was sent or, if the bytes are no such frame, kPeerLost naming `from`.
Status decode_end(std::span<const std::byte> frame, int from);

}  // namespace rueda::core
