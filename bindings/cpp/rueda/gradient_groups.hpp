#pragma once
#include <cstddef>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "rueda/session.hpp"

namespace rueda::detail {

inline void require(bool holds, const std::string& sentence) {
  if (!holds) throw InvalidArgument(RUEDA_INVALID_ARGUMENT, "DistributedOptimizer: " + sentence);
}

inline void require_valid(ReduceOp op, double predivide, int num_groups) {
  require(op == ReduceOp::kAverage || op == ReduceOp::kSum,
          "op is " + std::to_string(static_cast<int>(op)) + ", gradients are averaged (0) or summed (1)");
  require(predivide > 0, "gradient_predivide_factor is " + std::to_string(predivide) + ", it must be positive");
  require(predivide == 1.0 || op == ReduceOp::kAverage, "gradient_predivide_factor needs op average");
  require(num_groups >= 0, "num_groups is " + std::to_string(num_groups) + ", it must not be negative");
}

/// Waits for all handles even if one fails, then throws the first error. Continues to wait after a signal.
inline void wait_for_each(const std::vector<Handle>& handles) {
  std::exception_ptr first;
  for (size_t i = 0; i < handles.size();) {
    try {
      handles[i].wait();
      ++i;
    } catch (const Interrupted&) {
      continue;
    } catch (const Error&) {
      if (!first) first = std::current_exception();
      ++i;
    }
  }
  if (first) std::rethrow_exception(first);
}

/// Splits consecutive parameters into groups; each group is enqueued as one, once in each step. A value; one thread.
class GradientGroups {
 public:
  GradientGroups() = default;
  /// Splits `parameters` parameters into `groups` runs of nearly equal size (they differ by one at most). 0 groups:
  /// each parameter is its own group.
  GradientGroups(size_t parameters, size_t groups) {
    const size_t count = groups == 0 || groups > parameters ? parameters : groups;
    for (size_t group = 0; group < count; ++group) {
      const size_t last = parameters * (group + 1) / count;
      first_.push_back(group_of_.size());
      group_of_.resize(last, group);
    }
    first_.push_back(parameters);
    reset();
  }

  size_t size() const { return missing_.size(); }
  size_t group_of(size_t parameter) const { return group_of_[parameter]; }
  /// The index of the first parameter, and one past the last.
  std::pair<size_t, size_t> members(size_t group) const { return {first_[group], first_[group + 1]}; }
  /// The number of parameters that the group still waits for.
  size_t missing(size_t group) const { return missing_[group]; }
  /// Counts one parameter as ready.
  void member_ready(size_t parameter) { --missing_[group_of_[parameter]]; }
  bool enqueued(size_t group) const { return enqueued_[group]; }
  void mark_enqueued(size_t group) { enqueued_[group] = true; }
  /// Begins a new step.
  void reset() {
    missing_.clear();
    for (size_t group = 0; group + 1 < first_.size(); ++group) missing_.push_back(first_[group + 1] - first_[group]);
    enqueued_.assign(missing_.size(), false);
  }

 private:
  std::vector<size_t> group_of_;  ///< by parameter
  std::vector<size_t> first_;     ///< by group, and one past the last parameter
  std::vector<size_t> missing_;   ///< number of parameters that are not ready, by group
  std::vector<bool> enqueued_;    ///< by group
};

}  // namespace rueda::detail
