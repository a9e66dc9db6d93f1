#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/rueda_perf/arguments.h"
#include "benchmarks/rueda_perf/job.h"
#include "benchmarks/rueda_perf/pattern.h"

namespace rueda::perf {

/// Anonymous memory, touched, unmapped at the end.
class Memory {
 public:
  /// Throws std::bad_alloc.
  explicit Memory(size_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_;
  size_t bytes_;
};

/// What one row does, again and again: one operation, or several at once, on buffers of its own. Used by one thread.
/// Errors are rueda::Error.
class Workload {
 public:
  /// `counts`: the elements of each tensor, enqueued from the last to the first. A barrier has none.
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
    size_t bytes;
    int64_t count;
    std::string name;
    rueda_tensor input;
    rueda_tensor output;
    rueda_handle handle;
  };
  void place(size_t turn);
  void run_one(Member& member);
  void enqueue(Member& member);
  bool barrier_holds();

  const Job& job_;
  const Arguments& arguments_;
  Pattern pattern_;
  std::vector<Member> tensors_;
  size_t step_bytes_ = 0;
  size_t stride_ = 0;  ///< from one turn's buffers to the next
  size_t turns_ = 1;
  std::unique_ptr<Memory> input_;
  std::unique_ptr<Memory> output_;  ///< null in place
};

/// Bytes of the last-level cache, as the kernel tells; 32 MiB where it does not.
size_t last_level_cache_bytes();

}  // namespace rueda::perf
