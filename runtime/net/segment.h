#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/base/slot.h"
#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"
#include "runtime/net/doorbell.h"
#include "runtime/net/segment_memory.h"

namespace rueda::core {

/// The numbers that fix the offsets of a segment. They are equal on all ranks of a host and hashed into the header.
///
///   | SegmentHeader | ControlWords | (ring word, lines) x rings | LaneWords x lanes | (inputs, results) x lanes |
struct SegmentLayout {
  int local_size = 1;
  int lanes = 4;
  int rings = 1;                          ///< outgoing control rings, one per local rank: any rank can be the leader
  size_t ring_bytes = 16 << 10;           ///< of the lines of a ring: a power of two, at least 128
  int slots = 4;                          ///< input slots, and as many result slots, of each lane
  size_t slot_bytes = kDefaultSlotBytes;  ///< capacity of one slot; a chunk is never longer

  size_t ring_offset(int ring) const;
  size_t lane_offset(int lane) const;
  size_t input_offset(int lane, int slot) const;
  size_t result_offset(int lane, int slot) const;
  /// Rounded up to 256 KiB. With the default settings all hosts of up to 14 ranks have segments of one size.
  size_t total_bytes() const;
  uint64_t hash() const;
};

/// At offset 0. The owner writes it before it passes the descriptor, and never afterwards.
struct SegmentHeader {
  uint64_t magic;
  uint64_t layout_hash;
  uint64_t epoch;
  int32_t rank;
  int32_t reserved;
};

inline constexpr size_t kTrialsShown = 16;

/// When one rank ran a batch that is timed, as nanoseconds of the steady clock. `trial` is the number of the trial; it
/// is 0 at first and while the others are written. Numbers grow. The owner writes; the set's lowest member reads.
struct alignas(64) TrialWords {
  std::atomic<uint64_t> trial;
  std::atomic<int64_t> agreed;  ///< its verdict came
  std::atomic<int64_t> before;  ///< the set's batch before it ended
  std::atomic<int64_t> ended;   ///< 0: the rank does not know these times
};

/// The control words of a rank. `asleep` is 0 while a thread holds the baton and looks at the control rings, or soon
/// will. If it is 1, a peer that writes to one of the rank's rings also rings the rank's eventfd, unless the frame can
/// wait for the next turn. For such a frame it rings if `expecting` is 1, and does not look at `asleep`: that word
/// changes with every operation, and `expecting` seldom. Only the holder of the baton writes the two. `beats` grows
/// while the rank's process runs (`Heart`); peers on the host only read it. `caller_core` is where the rank's callers
/// sleep
/// (`LaneCores`), or where threads wait for it (`RankSpread`); these threads write it. `clock` tells which steady clock
/// the rank reads, and `trials` holds its latest trials by their numbers modulo kTrialsShown (`TrialTimes`).
struct ControlWords {
  alignas(128) std::atomic<uint32_t> asleep;
  alignas(128) std::atomic<uint32_t> expecting;
  alignas(128) std::atomic<uint64_t> beats;
  alignas(128) std::atomic<uint32_t> caller_core;
  alignas(128) std::atomic<uint64_t> clock;
  alignas(128) TrialWords trials[kTrialsShown];
};

/// The word of one outgoing byte ring (shm_ring.cc), whose lines follow it. With a and i as local ranks:
///
///   segment of a, ring i:  consumed    how many lines a has taken of the ring from i (ring a of i's segment)
///                          lines       what a has written for i
///
/// So every word has one writer: the segment's owner. Counts begin with the epoch and never wrap.
struct RingWords {
  alignas(128) std::atomic<uint64_t> consumed;
};

inline constexpr size_t kTinyBytes = 56;

/// A flag and a payload in one cache line: a reader that sees the stamp has the payload too, for one transfer.
struct alignas(64) TinyLine {
  std::atomic<uint64_t> stamp;
  std::byte payload[kTinyBytes];
};

inline constexpr size_t kEarlyBytes = 48;

/// An input that is shown before its batch is agreed. It is the owner's input to the batch with this stamp if that has
/// one tensor with this key; for every other batch it means nothing.
struct alignas(64) EarlyLine {
  std::atomic<uint64_t> stamp;
  uint64_t key;
  std::byte payload[kEarlyBytes];
};

/// The words of one lane of one rank. The owner writes and peers read all but the bell. A word holds a *stamp*: rank 0
/// gives every batch a range of stamps, and stamps grow over the whole epoch. So a word never restarts, whatever
/// process sets share the lane, and "at least" comparisons are enough.
struct LaneWords {
  alignas(128) std::atomic<uint64_t> posted;   ///< my input up to this chunk is readable
  alignas(128) std::atomic<uint64_t> reduced;  ///< my result slice up to this chunk is readable
  alignas(128) std::atomic<uint64_t> done;     ///< I have read all I need of my peers up to this chunk
  alignas(128) std::atomic<uint64_t> ping;     ///< for measuring distances
  alignas(128) Bell bell;                      ///< the lane's doorbell (any rank rings)
  alignas(128) TinyLine tiny[2];
  alignas(128) EarlyLine early[2];
};

/// One rank's sealed memfd and its mapping; an unnamed file in /dev/shm without seals if memfd_create is refused. The
/// rank creates it, allocated in full, so no later access can fault for lack of memory. Its peers map the descriptor
/// after checking size, seals, magic, layout hash, epoch and rank. A rank that may share no memory has the same words
/// in memory of its own. Immutable afterwards, so any thread may ask for addresses; each struct of words above says
/// which thread may use it. Two ranks of one process share one mapping of a segment, which race detectors need. The
/// last owner of the mapping unmaps it. A forked child does not inherit it (MADV_DONTFORK).
class Segment {
 public:
  /// Returns kSystem if there is no memory for it, or if neither memfd_create nor O_TMPFILE in /dev/shm is allowed; the
  /// sentence names call and errno. The rank then makes a private one and uses TCP.
  static Result<std::shared_ptr<Segment>> create(const SegmentLayout& layout, uint64_t epoch, int rank);
  /// The same in memory that was made before. `memory` has `layout.total_bytes()`, and nobody has written to it.
  static Result<std::shared_ptr<Segment>> create_in(SegmentMemory memory, const SegmentLayout& layout, uint64_t epoch,
                                                    int rank);
  /// Returns a segment that no other process can map: it has no descriptor, and takes memory only where it is written.
  /// Returns kSystem if there is no address space for it.
  static Result<std::shared_ptr<Segment>> create_private(const SegmentLayout& layout, uint64_t epoch, int rank);
  /// `fd` stays the caller's. Returns kSystem if the descriptor is not the segment of this layout, epoch and rank; the
  /// sentence says what differs.
  static Result<std::shared_ptr<Segment>> map(int fd, const SegmentLayout& layout, uint64_t epoch, int rank);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  /// The descriptor to pass to peers; -1 if this process mapped the segment, or if it is private.
  int fd() const { return fd_.get(); }
  const SegmentLayout& layout() const { return layout_; }
  std::byte* base() const { return base_; }
  ControlWords& control() const;
  RingWords& ring_words(int ring) const;
  std::byte* ring_bytes(int ring) const;
  LaneWords& lane(int lane) const;
  std::byte* input(int lane, int slot) const;
  std::byte* result(int lane, int slot) const;

 private:
  Segment(UniqueFd fd, std::byte* base, const SegmentLayout& layout, uint64_t device, uint64_t inode);
  UniqueFd fd_;
  std::byte* base_;
  SegmentLayout layout_;
  uint64_t device_, inode_;
  int process_;  ///< the process that has the mapping: a forked child inherits the object, not the memory
};

}  // namespace rueda::core
