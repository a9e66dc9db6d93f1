#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/rueda_perf/arguments.h"
#include "benchmarks/rueda_perf/buffers.h"
#include "benchmarks/rueda_perf/job.h"
#include "benchmarks/rueda_perf/pattern.h"
#include "benchmarks/rueda_perf/step_memory.h"

namespace rueda::perf {

/// What one entry does, again and again: one operation, or several at once, on buffers of its own. Used by one thread.
/// Errors are rueda::Error.
class Workload {
 public:
  /// `counts`: the elements of each tensor, enqueued from the last to the first; if ranks have parts, those of all
  /// of them, in whole parts. A barrier has none.
  Workload(const Job& job, const Arguments& arguments, Form form, const std::vector<size_t>& counts);

  size_t bytes() const { return step_bytes_; }
  size_t tensors() const { return tensors_.size(); }
  /// One step on the buffers of turn `turn` (the same ones each time when hot); returns when all of it is done.
  void step(size_t turn);
  /// Runs one step on fresh inputs and looks at every element of its result; this rank's view.
  bool step_is_correct();

 private:
  struct Member {
    size_t offset;
    size_t bytes;      ///< of the larger of input and output
    int64_t in_count;  ///< elements
    int64_t out_count;
    size_t share_bytes;  ///< of one rank, if ranks have parts
    std::string name;
    rueda_tensor input;
    rueda_tensor output;
    rueda_handle handle;
    rueda_handle sent;  ///< of the send, if a step sends and receives
  };
  void place(size_t turn);
  void fill(const Member& member, size_t index) const;
  bool holds(const Member& member, size_t index) const;
  void run_one(Member& member);
  void enqueue(Member& member);
  void exchange_with_neighbours(Member& member, const rueda_op_options& options);
  void finish(Member& member) const;
  bool barrier_holds();

  const Job& job_;
  const Arguments& arguments_;
  Pattern pattern_;
  std::vector<Member> tensors_;
  size_t step_bytes_ = 0;
  Rotation rotation_;
  std::unique_ptr<StepMemory> input_;
  std::unique_ptr<StepMemory> output_;  ///< null in place
};

}  // namespace rueda::perf
