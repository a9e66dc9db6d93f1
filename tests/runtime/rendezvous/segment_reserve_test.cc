// Memory for a segment that is made before it is needed. How the segment is used is form_test's.
#include "runtime/rendezvous/segment_reserve.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <utility>

#include "runtime/rendezvous/locality.h"
#include "runtime/rendezvous/memory_budget.h"
#include "tests/support/open_descriptors.h"

namespace rueda::core {
namespace {

size_t bytes_for(int local_size) { return layout_for(Settings(), local_size).total_bytes(); }

TEST_CASE("what a reserve has prepared is of the right size, zero, and given once") {
  const size_t descriptors = open_descriptors();
  SegmentReserve reserve;
  CHECK_FALSE(reserve.take(bytes_for(3)));
  reserve.prepare(Settings(), 3);
  reserve.prepare(Settings(), 3);
  auto memory = reserve.take(bytes_for(3));
  REQUIRE(memory);
  CHECK(memory->bytes() == bytes_for(3));
  CHECK(open_descriptors() == descriptors + 1);
  CHECK_FALSE(reserve.take(bytes_for(3)));
  auto [fd, base] = std::move(*memory).take();
  CHECK(std::all_of(base, base + bytes_for(3), [](std::byte each) { return each == std::byte{0}; }));
  ::munmap(base, bytes_for(3));
}

TEST_CASE("a reserve gives back what nobody takes, or what has another size") {
  const size_t descriptors = open_descriptors();
  {
    SegmentReserve reserve;
    reserve.prepare(Settings(), 2);
    CHECK_FALSE(reserve.take(bytes_for(2) + 1));
    CHECK(open_descriptors() == descriptors);
    reserve.prepare(Settings(), 2);
    reserve.drop();
    CHECK(open_descriptors() == descriptors);
    reserve.prepare(Settings(), 2);
    CHECK(reserve.take(bytes_for(2)));
    reserve.prepare(Settings(), 2);
  }
  CHECK(open_descriptors() == descriptors);
}

TEST_CASE("hosts of a few ranks have segments of one size, whether workers come or go") {
  for (int local_size = 2; local_size <= 14; ++local_size) CHECK(bytes_for(local_size) == bytes_for(1));
}

TEST_CASE("a segment takes its memory from the reserve, and makes it if there is none") {
  SegmentReserve reserve;
  reserve.prepare(Settings(), 2);
  const SegmentLayout layout = layout_for(Settings(), 2);
  auto prepared = take_prepared(&reserve, layout);
  REQUIRE(prepared);
  struct stat file {};
  REQUIRE(::fstat(prepared->fd(), &file) == 0);
  const ino_t inode = file.st_ino;
  const auto first = create_segment(layout, 7, 1, std::move(prepared));
  const auto second = create_segment(layout, 7, 1, take_prepared(&reserve, layout));
  const auto third = create_segment(layout, 7, 1, take_prepared(nullptr, layout));
  for (const auto* segment : {&first, &second, &third}) {
    REQUIRE(segment->ok());
    CHECK(Segment::map(segment->value()->fd(), layout, 7, 1).ok());
    CHECK_FALSE(Segment::map(segment->value()->fd(), layout, 8, 1).ok());
  }
  REQUIRE(::fstat(first.value()->fd(), &file) == 0);
  CHECK(file.st_ino == inode);
}

TEST_CASE("memory is prepared only if limits leave room for two segments of each rank") {
  const size_t bytes = 8 << 20;
  const auto limit = [](uint64_t left) { return MemoryLimit{"/job", left + 1, left}; };
  CHECK(may_prepare({}, bytes, 4));
  const uint64_t needed = (2 * bytes + kLeastBytes) * 4;
  const MemoryLimit enough[] = {limit(needed), limit(needed + 1)};
  CHECK(may_prepare(enough, bytes, 4));
  const MemoryLimit scarce[] = {limit(needed + 1), limit(needed - 1)};
  CHECK_FALSE(may_prepare(scarce, bytes, 4));
}

}  // namespace
}  // namespace rueda::core
