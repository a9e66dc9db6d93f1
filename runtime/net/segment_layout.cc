// The offsets of a segment, in bytes:
//
//   0          128           512                                          page                   page
//   | header   | control     | ring 0: word, lines | ring 1: ... | ...   | lane words x lanes   | lane 0: slots | ...
//
//   one lane's slots:   | input 0 | ... | input n-1 | result 0 | ... | result n-1 |     each on pages of its own
//
// Words that different ranks write lie 128 bytes apart. Lanes and slots begin on pages, so that the kernel can place
// them on the node of the rank that touches them first.
#include "runtime/net/segment.h"

namespace rueda::core {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kUnit = 256 << 10;  // of a segment's size
constexpr size_t kLines = 128;       // two cache lines: adjacent-line prefetchers fetch pairs

constexpr size_t aligned(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

size_t ring_stride(const SegmentLayout& layout) { return sizeof(RingWords) + aligned(layout.ring_bytes, kLines); }
size_t slot_stride(const SegmentLayout& layout) { return aligned(layout.slot_bytes, kPage); }

constexpr size_t kControlOffset = kLines;
constexpr size_t kRingsOffset = kControlOffset + sizeof(ControlWords);
constexpr size_t kLaneStride = aligned(sizeof(LaneWords), kPage);

static_assert(sizeof(SegmentHeader) <= kControlOffset);
static_assert(kRingsOffset % kLines == 0 && sizeof(RingWords) % kLines == 0);

}  // namespace

size_t SegmentLayout::ring_offset(int ring) const {
  return kRingsOffset + static_cast<size_t>(ring) * ring_stride(*this);
}

size_t SegmentLayout::lane_offset(int lane) const {
  return aligned(ring_offset(rings), kPage) + static_cast<size_t>(lane) * kLaneStride;
}

size_t SegmentLayout::input_offset(int lane, int slot) const {
  const size_t before = static_cast<size_t>(lane) * static_cast<size_t>(slots) * 2 + static_cast<size_t>(slot);
  return lane_offset(lanes) + before * slot_stride(*this);
}

size_t SegmentLayout::result_offset(int lane, int slot) const { return input_offset(lane, slots + slot); }

size_t SegmentLayout::total_bytes() const { return aligned(input_offset(lanes, 0), kUnit); }

uint64_t SegmentLayout::hash() const {
  // FNV-1a over everything that decides an offset, the sizes of the structures included.
  const uint64_t fields[] = {static_cast<uint64_t>(local_size),
                             static_cast<uint64_t>(lanes),
                             static_cast<uint64_t>(rings),
                             ring_bytes,
                             static_cast<uint64_t>(slots),
                             slot_bytes,
                             sizeof(LaneWords),
                             sizeof(RingWords),
                             sizeof(TinyLine),
                             sizeof(EarlyLine),
                             sizeof(ControlWords)};
  uint64_t hash = 14695981039346656037u;
  for (const uint64_t field : fields) {
    for (int shift = 0; shift < 64; shift += 8) hash = (hash ^ ((field >> shift) & 0xff)) * 1099511628211u;
  }
  return hash;
}

ControlWords& Segment::control() const { return *reinterpret_cast<ControlWords*>(base_ + kControlOffset); }

RingWords& Segment::ring_words(int ring) const {
  return *reinterpret_cast<RingWords*>(base_ + layout_.ring_offset(ring));
}

std::byte* Segment::ring_bytes(int ring) const { return base_ + layout_.ring_offset(ring) + sizeof(RingWords); }

LaneWords& Segment::lane(int lane) const { return *reinterpret_cast<LaneWords*>(base_ + layout_.lane_offset(lane)); }

std::byte* Segment::input(int lane, int slot) const { return base_ + layout_.input_offset(lane, slot); }

std::byte* Segment::result(int lane, int slot) const { return base_ + layout_.result_offset(lane, slot); }

}  // namespace rueda::core
