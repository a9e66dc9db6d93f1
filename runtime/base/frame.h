#pragma once
#include <cstddef>
#include <vector>

namespace rueda::core {

/// The bytes of one control frame, without the length in front of it on a stream.
using Frame = std::vector<std::byte>;

/// The longest control frame. A link that is given or sent a longer one breaks; what does not fit is split by its
/// sender.
inline constexpr size_t kMaxFrameBytes = 16u << 20;

}  // namespace rueda::core
