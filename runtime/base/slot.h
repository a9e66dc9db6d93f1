#pragma once
#include <cstddef>

namespace rueda::core {

/// Bytes of one slot of a lane's shared memory unless a layout says otherwise. A chunk never exceeds a slot, so
/// planners need this number too.
inline constexpr size_t kDefaultSlotBytes = 256 << 10;

}  // namespace rueda::core
