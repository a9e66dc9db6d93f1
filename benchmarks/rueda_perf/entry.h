#pragma once
#include <cstddef>
#include <string>

namespace rueda::perf {

/// Microseconds of one step.
struct Quantiles {
  double p50 = 0;
  double p99 = 0;
  double max = 0;
};

/// Round trips between ranks 0 and 1 around an entry, 0 if they could not be measured (one rank, several hosts).
struct RoundTrips {
  double line_ns = 0;   ///< of a cache line, both sides spinning
  double futex_us = 0;  ///< of two futex hand-overs, both sides sleeping
};

/// One line of the table and one object of the JSON's `results`.
struct Entry {
  std::string collective;
  size_t bytes = 0;  ///< of a whole step: of all tensors together
  std::string dtype;
  std::string codec;
  std::string algorithm;  ///< what moved most of the bytes on rank 0; "mpi" for the peer
  int ranks = 1;
  Quantiles time;  ///< each the maximum over the ranks' own
  RoundTrips before;
  RoundTrips after;
  bool correct = false;

  size_t tensors = 1;  ///< enqueued in one step
  bool in_place = true;
  bool cold = false;
  std::string memory = "private";  ///< of the tensors, or "shared"
  size_t iterations = 0;
  std::string set;    ///< "resnet50", or empty
  std::string flags;  ///< the peer's
};

/// bytes / p50 in GB/s (1e9); 0 for a barrier.
double algbw(const Entry& entry);
/// What each link carries: algbw * 2(N-1)/N for an all-reduce, (N-1)/N if ranks have parts, else algbw.
double busbw(const Entry& entry);

}  // namespace rueda::perf
