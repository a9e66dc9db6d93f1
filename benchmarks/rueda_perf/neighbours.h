#pragma once
#include <memory>

#include "benchmarks/rueda_perf/entry.h"
#include "benchmarks/rueda_perf/job.h"
#include "benchmarks/rueda_perf/meeting.h"

namespace rueda::perf {

/// How far apart ranks 0 and 1 are, measured through a page of their own. All ranks make one and call it together.
class Neighbours {
 public:
  explicit Neighbours(const Job& job);
  ~Neighbours();
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  /// The other ranks wait asleep. Returns what rank 0 measured; zeros for one rank, and if the two share no memory.
  RoundTrips measure();

 private:
  const Job& job_;
  MeetingPage* page_ = nullptr;
  std::unique_ptr<Meeting> meeting_;
};

}  // namespace rueda::perf
