#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace rueda::core {

/// A control frame between two ranks that have no link, as leaders of the tree pass it on.
///
///   origin (varint) destination (varint) kind (u8) body
struct RoutedFrame {
  int origin = 0;
  int destination = 0;
  std::byte kind{};                 ///< control_frames.h
  std::span<const std::byte> body;  ///< borrowed
};

std::vector<std::byte> encode_routed(const RoutedFrame& frame);
/// Borrows `bytes`. Returns empty if they are too short, or if a rank is not of a job of `size`.
std::optional<RoutedFrame> decode_routed(std::span<const std::byte> bytes, int size);

}  // namespace rueda::core
