// Metadata gets a number once its set has agreed on it, and the number replaces it on the wire and in comparisons. Rank
// 0 and the participants fill their tables in the order of the kDefine verdicts, so a number means the same everywhere.
#include "runtime/agreement/metadata_table.h"

#include <bit>

namespace rueda::core {

/// A multiply and a rotation for each field. `order` is left out: equal shapes of different order are rare and
/// compared.
size_t MetadataHash::operator()(const Metadata& metadata) const {
  uint64_t hash = 0x9e3779b97f4a7c15u;
  const auto mix = [&hash](uint64_t value) { hash = std::rotl((hash ^ value) * 0xff51afd7ed558ccdu, 31); };
  mix(static_cast<uint64_t>(metadata.kind) << 24 ^ static_cast<uint64_t>(metadata.dtype) << 16 ^
      static_cast<uint64_t>(metadata.op) << 8 ^ static_cast<uint64_t>(metadata.codec));
  mix(static_cast<uint64_t>(metadata.device) << 32 ^ static_cast<uint32_t>(metadata.root));
  // Adding 0.0 turns -0.0 into +0.0: the two compare equal, so their hashes must be equal.
  mix(std::bit_cast<uint64_t>(metadata.prescale + 0.0));
  mix(std::bit_cast<uint64_t>(metadata.postscale + 0.0));
  for (const int64_t dimension : metadata.shape) mix(static_cast<uint64_t>(dimension) + 1);
  mix(metadata.group_hash);
  mix(uint64_t{metadata.group_size} << 2 | static_cast<uint64_t>(metadata.memory) << 1 |
      static_cast<uint64_t>(metadata.over));
  return hash;
}

uint32_t MetadataTable::find(const Metadata& metadata) const {
  const auto found = numbers_.find(metadata);
  return found == numbers_.end() ? kNoMetadata : found->second;
}

uint32_t MetadataTable::add(const Metadata& metadata) {
  if (entries_.size() >= capacity_) return kNoMetadata;
  const auto number = static_cast<uint32_t>(entries_.size());
  // A map node keeps its address when the table grows, so `entries_` may point into it.
  const auto added = numbers_.emplace(metadata, number).first;
  entries_.push_back(&added->first);
  return number;
}

}  // namespace rueda::core
