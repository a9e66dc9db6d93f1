#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "benchmarks/compare/ranks/work.h"

namespace rueda::compare {

/// What a compared library must do: sums over the ranks of a job. Used by one thread of each rank. Errors are
/// exceptions.
class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Name and version.
  virtual std::string library() const = 0;

  /// Sums the tensor over all ranks in place; returns when the sum is there. `tensor` keeps its address and name.
  virtual void sum(const Tensor& tensor, const Work& work) = 0;
  /// Begins a sum, which may be complete only when finish() returns. The tensor is borrowed until then.
  virtual void start(const Tensor& tensor, const Work& work) = 0;
  virtual void finish() = 0;
  /// The largest or the total of the ranks' numbers; all ranks call it.
  virtual double max(double value) = 0;
  virtual double total(double value) = 0;

  /// Memory of the library that all ranks of the host reach, touched, until free_shared(). Throws if it has none.
  virtual std::byte* allocate_shared(size_t bytes);
  virtual void free_shared(std::byte* memory);
};

/// Joins the job that started this process. Each library's file has one.
std::unique_ptr<Ranks> join_job();

}  // namespace rueda::compare
