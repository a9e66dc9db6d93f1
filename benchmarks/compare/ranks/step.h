#pragma once
#include <memory>
#include <vector>

#include "benchmarks/compare/ranks/ranks.h"
#include "benchmarks/rueda_perf/buffers.h"

namespace rueda::compare {

/// The tensors of a work in memory, and a step on them. Used by the thread that uses `ranks`.
class Step {
 public:
  /// Touches all memory. Throws if there is too little of it.
  Step(Ranks& ranks, const Work& work);
  ~Step();
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  size_t bytes() const { return bytes_; }
  /// One step on the memory of this turn; returns when all sums are there.
  void run(size_t turn);
  /// Runs a step on known numbers and looks at every element; then the memory holds zeros. Returns this rank's view.
  bool is_correct();

 private:
  void move_to(size_t turn);

  Ranks& ranks_;
  const Work& work_;
  std::vector<Tensor> tensors_;
  std::vector<size_t> offsets_;  ///< bytes, of each tensor in a turn's memory
  size_t bytes_ = 0;
  perf::Rotation rotation_;
  std::unique_ptr<perf::Memory> own_;
  std::unique_ptr<perf::Memory> pack_;  ///< only if the work is packed
  std::byte* shared_ = nullptr;
};

}  // namespace rueda::compare
