#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "benchmarks/rueda_perf/job.h"
#include "benchmarks/rueda_perf/row.h"

namespace rueda::perf {

/// Where two sides meet: each writes its own words and watches the other's.
struct MeetingWords {
  alignas(128) std::atomic<uint64_t> line{0};
  alignas(128) std::atomic<uint32_t> futex{0};
};
struct MeetingPage {
  uint64_t magic = 0;
  MeetingWords side[2];
};

/// One side's view of a page shared by two processes. Used by one thread.
class Meeting {
 public:
  /// Borrows the page, zero at first; `side` is 0 or 1.
  Meeting(MeetingPage& page, int side) : page_(page), side_(side) {}
  /// Both sides call it at about the same time. Blocks for some milliseconds, 4 seconds at most.
  RoundTrips measure();

 private:
  double futex_round_trip();
  MeetingWords& own() { return page_.side[side_]; }
  MeetingWords& other() { return page_.side[1 - side_]; }

  MeetingPage& page_;
  int side_;
  uint64_t token_ = 0;
  uint32_t trips_ = 0;
};

/// How far apart ranks 0 and 1 are, measured through a page of their own. All ranks make one and call it together.
class Neighbours {
 public:
  explicit Neighbours(const Job& job);
  ~Neighbours();
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  /// The other ranks wait asleep. As rank 0 measured; zeros for one rank, and where the two share no memory.
  RoundTrips measure();

 private:
  const Job& job_;
  MeetingPage* page_ = nullptr;
  std::unique_ptr<Meeting> meeting_;
};

}  // namespace rueda::perf
