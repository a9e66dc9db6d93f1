#pragma once
#include <chrono>
#include <cstddef>

namespace rueda::core::launcher {

/// What all conductors keep to.

/// Between the news that a job has failed, at which ranks raise, and SIGTERM.
inline constexpr std::chrono::milliseconds kTimeToRaise{3000};
/// Unprinted bytes above which hvdrun grants agents no more output.
inline constexpr size_t kMaxBacklog = 256u << 10;
/// hvdrun's exit code if only output was lost, a rank has no known end, or what failed was not a rank.
inline constexpr int kIncomplete = 1;

}  // namespace rueda::core::launcher
