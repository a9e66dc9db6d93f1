#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "rueda.hpp"

namespace rueda::perf {

/// The ranks that measure together, and what they tell each other between entries: always f64, uncompressed. Used by
/// the main thread. All functions throw rueda::Error.
class Job {
 public:
  Job() = default;

  const Session& session() const { return session_; }
  int rank() const { return session_.rank(); }
  int size() const { return session_.size(); }
  bool speaks() const { return rank() == 0; }

  /// Element by element, in place, over all ranks.
  void max(std::span<double> values) const { reduce(values, ReduceOp::kMax); }
  double max(double value) const;
  double sum(double value) const;
  bool all(bool value) const;
  /// Rank 0's values for everyone.
  void share(std::span<double> values) const;
  /// Waits asleep: a rank that came early leaves the cores to the others.
  void wait_for_all() const { session_.barrier(); }

 private:
  void reduce(std::span<double> values, ReduceOp op) const;
  Session session_;
};

}  // namespace rueda::perf
