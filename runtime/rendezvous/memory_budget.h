#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/memory_limits.h"
#include "runtime/base/status.h"

namespace rueda::core {

/// What a rank takes between its wish and its first small operation besides the segment: threads, sockets, buffers. A
/// rank of two was seen to take 0.6 MiB; operations on large tensors take more.
inline constexpr size_t kLeastBytes = size_t{1} << 20;

/// Returns kSystem if a group's limit leaves less than `bytes` for this rank and as much for each of its `neighbours`
/// (process ids) in that group; the sentence gives the group, its limit and what is needed. Memory beyond a limit kills
/// the process that touches it, so this asks before anything is taken. `limits` are of a time at which no rank had
/// taken its segment; what some had prepared (`SegmentReserve`) is not left there any more. `root` as in
/// `memory_limits`.
Status check_budget(std::span<const MemoryLimit> limits, size_t bytes, const std::vector<int64_t>& neighbours,
                    const std::string& root = "");

}  // namespace rueda::core
