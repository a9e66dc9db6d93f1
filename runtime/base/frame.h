#pragma once
#include <cstddef>
#include <vector>

namespace rueda::core {

/// The bytes of one control frame, without the length in front of it on a stream.
using Frame = std::vector<std::byte>;

/// The longest control frame. A link that is given or sent a longer one breaks, so senders split what does not fit.
inline constexpr size_t kMaxFrameBytes = 16u << 20;

}  // namespace rueda::core
