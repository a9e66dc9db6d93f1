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

/// Returns the sentence of a mismatch, at most kMaxSentenceBytes: for each field that differs, which ranks sent what.
///
///   allreduce "w1": shape differs: ranks 0-2 (host a) sent [12], rank 3 (host b) sent [10]
///
/// `what` names the tensor and its set: `"w1"` or `#4`. `sent` is ascending by rank and not empty.
std::string mismatch_sentence(const std::string& what, std::span<const Sent> sent, const RankNames& names);

}  // namespace rueda::core
