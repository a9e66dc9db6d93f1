#pragma once
#include <span>
#include <string>
#include <vector>

#include "runtime/agreement/request.h"
#include "runtime/base/rank_ranges.h"

namespace rueda::core {

/// What one member sent for an occurrence.
struct Sent {
  int rank;
  const Metadata* metadata;
};

/// The sentence of a mismatch: for each field that differs, who sent what:
/// `allreduce "w1": shape differs: ranks 0-2 (host a) sent [12], rank 3 (host b) sent [10]`. `sent` ascending by rank,
/// not empty. `what` names the tensor: `"w1"` or `#4`, and its
/// set. At most kMaxSentenceBytes.
std::string mismatch_sentence(const std::string& what, std::span<const Sent> sent, std::span<const std::string> hosts);

}  // namespace rueda::core
