#pragma once
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "runtime/agreement/request.h"

namespace rueda::core {

inline constexpr uint32_t kNoMetadata = UINT32_MAX;

struct MetadataHash {
  size_t operator()(const Metadata& metadata) const;
};

/// Metadata by number. Rank 0 adds what a set agreed on and tells all members, which add it in the same order. Entries
/// stay for the epoch, so a number in flight always has its entry. Owned by one machine of agreement.
class MetadataTable {
 public:
  /// Holds at most `capacity` entries; what comes later has no number and travels in full each time.
  explicit MetadataTable(size_t capacity) : capacity_(capacity) {}
  /// Returns kNoMetadata if it has no number.
  uint32_t find(const Metadata& metadata) const;
  /// Adds metadata that `find` does not know. Returns its number, or kNoMetadata if the table is full.
  uint32_t add(const Metadata& metadata);
  const Metadata& at(uint32_t number) const { return *entries_[number]; }
  size_t size() const { return entries_.size(); }

 private:
  size_t capacity_;
  std::unordered_map<Metadata, uint32_t, MetadataHash> numbers_;
  std::vector<const Metadata*> entries_;
};

}  // namespace rueda::core
