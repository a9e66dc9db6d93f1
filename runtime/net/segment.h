#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/base/slot.h"
#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"
#include "runtime/net/doorbell.h"

namespace rueda::core {

/// What fixes the offsets of a segment; equal on all ranks of a host, and hashed into the header.
///
///   | SegmentHeader | ControlWords | ring words+bytes x rings | LaneWords x lanes | (inputs, results) x lanes |
struct SegmentLayout {
  int local_size = 1;
  int lanes = 4;
  int rings = 1;                          ///< outgoing control rings: one per local rank, so that any rank can lead
  size_t ring_bytes = 16 << 10;           ///< a power of two
  int slots = 4;                          ///< input slots, and as many result slots, of each lane
  size_t slot_bytes = kDefaultSlotBytes;  ///< capacity of one slot; a chunk is never longer

  size_t ring_offset(int ring) const;
  size_t lane_offset(int lane) const;
  size_t input_offset(int lane, int slot) const;
  size_t result_offset(int lane, int slot) const;
  size_t total_bytes() const;
  uint64_t hash() const;
};

/// At offset 0. Written before the descriptor is passed to anybody, never after.
struct SegmentHeader {
  uint64_t magic;
  uint64_t layout_hash;
  uint64_t epoch;
  int32_t rank;
  int32_t reserved;
};

/// What `ControlWords::asleep` says.
inline constexpr uint32_t kLooking = 0;           ///< somebody holds the baton: no need to ring
inline constexpr uint32_t kRestingIdle = 1;       ///< ring unless the frame can wait for the next turn
inline constexpr uint32_t kRestingExpecting = 2;  ///< ring for every frame

/// The coordinator's side of a rank: `asleep` says whether anybody holds the baton and looks at the control rings; who
/// then writes to one of the rank's inputs rings its eventfd. Written by the baton's holder alone.
struct ControlWords {
  alignas(128) std::atomic<uint32_t> asleep;
};

/// One outgoing byte ring: `written` is the owner's. `consumed` counts what the owner has read of the ring with the
/// same index on the *other* side: ring i of rank a (local index) carries a's bytes to local rank i, and
/// `consumed` in ring i of rank a is what a has taken of the bytes that local rank i wrote to a. So every word here has
/// one writer: the segment's owner.
struct RingWords {
  alignas(128) std::atomic<uint64_t> written;
  alignas(128) std::atomic<uint64_t> consumed;
};

inline constexpr size_t kTinyBytes = 56;

/// A flag whose payload travels in its cache line.
struct alignas(64) TinyLine {
  std::atomic<uint64_t> stamp;
  std::byte payload[kTinyBytes];
};

/// The words of one lane of one rank. Owner writes, peers read, the bell excepted. A word holds a *stamp*: rank 0 gives
/// every batch a range of stamps that grows over the whole epoch, so a word never restarts, whatever sets share the
/// lane, and "at least" comparisons are enough.
struct LaneWords {
  alignas(128) std::atomic<uint64_t> posted;   ///< my input up to this chunk is readable
  alignas(128) std::atomic<uint64_t> reduced;  ///< my result slice up to this chunk is readable
  alignas(128) std::atomic<uint64_t> done;     ///< I read nothing of my peers up to this chunk any more
  alignas(128) std::atomic<uint64_t> probe;    ///< for the distance probe
  alignas(128) Bell bell;                      ///< the lane's doorbell (any rank rings)
  alignas(128) TinyLine tiny[2];
};

/// One rank's sealed memfd and its mapping. Where memfd_create is refused, an unnamed file in /dev/shm, which has no
/// seals. Immutable after `create` or `map`, so any thread may ask for addresses; who may use the words behind them is
/// said at the words. The owner creates it (allocated in full, so that no later access can fault
/// for want of memory); peers map the descriptor after checking size, seals, magic, layout hash, epoch and rank.
/// Two ranks of one process share one mapping of a segment, which race detectors need. Unmapped and closed with the
/// last owner of the mapping; a mapping in a forked child does not exist (MADV_DONTFORK).
class Segment {
 public:
  /// The layout's `ring_bytes` is a power of two. kSystem: no memory for it, or neither memfd_create nor O_TMPFILE in
  /// /dev/shm is allowed; the sentence says which call and errno. The rank then uses TCP.
  static Result<std::shared_ptr<Segment>> create(const SegmentLayout& layout, uint64_t epoch, int rank);
  /// `fd` stays the caller's. kSystem: the descriptor is not such a segment, said in words.
  static Result<std::shared_ptr<Segment>> map(int fd, const SegmentLayout& layout, uint64_t epoch, int rank);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  /// The descriptor to pass to peers; -1 for a segment that was mapped, not created, by this process.
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
  int process_;  ///< whose address space holds the mapping: a forked child has inherited the object, not the memory
};

}  // namespace rueda::core
