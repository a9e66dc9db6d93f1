// What metadata derives from its fields, and the hash of a group. Ranks compare groups by a hash of the ordered
// names and by size: a name list of thousands of tensors would be too long to send with each proposal.
#include "runtime/agreement/request.h"

#include <string_view>

namespace rueda::core {

bool Metadata::agrees_with(const Metadata& other) const {
  if (memory == other.memory) return *this == other;
  Metadata moved = other;
  moved.memory = memory;
  return *this == moved;
}

int64_t Metadata::count() const {
  int64_t product = 1;
  for (const int64_t dimension : shape) product *= dimension;
  return product;
}

std::span<const int64_t> Metadata::dimensions() const {
  // The last dimension of an opaque tensor is the size of its element, which the caller does not see as a dimension.
  const size_t inner = dtype == Dtype::kOpaque && !shape.empty() ? 1 : 0;
  return {shape.data(), shape.size() - inner};
}

size_t Metadata::element_bytes() const {
  return dtype == Dtype::kOpaque && !shape.empty() ? static_cast<size_t>(shape.back()) : size_of(dtype);
}

/// The order of names is part of the hash: ranks that submit a group in different orders would cut it differently.
void describe_group(std::span<Request> requests) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a, 64 bits
  const auto mix = [&hash](std::string_view bytes) {
    for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
    hash = (hash ^ 0xff) * 0x100000001b3u;  // an end that no name in UTF-8 contains
  };
  for (const Request& request : requests) mix(request.name);
  for (Request& request : requests) {
    request.metadata.group_hash = hash;
    request.metadata.group_size = static_cast<uint32_t>(requests.size());
  }
}

}  // namespace rueda::core
