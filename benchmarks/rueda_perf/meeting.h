#pragma once
#include <atomic>
#include <cstdint>

namespace rueda::perf {

/// The words of two sides that meet: each writes its own and watches the other's.
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
  /// Both sides call these at about the same time. The round trip of a cache line, both spinning; 0 if the other
  /// side did not answer. Takes milliseconds, 2 seconds at most.
  double line_ns();
  /// The round trip of two hand-overs between sleepers, to side 0; 0 as above.
  double futex_us();

 private:
  MeetingWords& own() { return page_.side[side_]; }
  MeetingWords& other() { return page_.side[1 - side_]; }

  MeetingPage& page_;
  int side_;
  uint64_t token_ = 0;
  uint32_t trips_ = 0;
};

}  // namespace rueda::perf
