// The head of a frame that goes by way of other ranks. What is behind it is the receiver's to read.
#include "runtime/engine/routed_frame.h"

#include "runtime/base/wire.h"

namespace rueda::core {

std::vector<std::byte> encode_routed(const RoutedFrame& frame) {
  WireWriter writer;
  writer.varint(static_cast<uint64_t>(frame.origin));
  writer.varint(static_cast<uint64_t>(frame.destination));
  writer.u8(static_cast<uint8_t>(frame.kind));
  writer.raw(frame.body);
  return writer.take();
}

std::optional<RoutedFrame> decode_routed(std::span<const std::byte> bytes, int size) {
  WireReader reader(bytes);
  const auto most = static_cast<uint64_t>(size - 1);
  RoutedFrame frame;
  frame.origin = static_cast<int>(reader.varint(most));
  frame.destination = static_cast<int>(reader.varint(most));
  frame.kind = static_cast<std::byte>(reader.u8());
  if (!reader.ok()) return std::nullopt;
  frame.body = reader.rest();
  return frame;
}

}  // namespace rueda::core
