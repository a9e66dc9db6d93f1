#include "runtime/net/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/open_descriptors.h"
#include "tests/support/refused_call.h"

namespace rueda::core {
namespace {

constexpr uint64_t kSegmentEpoch = 5;
constexpr int kRank = 2;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

SegmentLayout small_layout() {
  SegmentLayout layout;
  layout.local_size = 3;
  layout.rings = 3;
  layout.lanes = 2;
  layout.slots = 2;
  layout.slot_bytes = 10000;
  layout.ring_bytes = 1024;
  return layout;
}

/// Runs in a forked child; the value it returns, or -1 if it died.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int state = 0;
  ::waitpid(child, &state, 0);
  return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

/// A memory file that a stranger might send.
UniqueFd forged(size_t bytes, int seals, const SegmentHeader& header) {
  UniqueFd fd(::memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0);
  REQUIRE(::pwrite(fd.get(), &header, sizeof(header), 0) == static_cast<ssize_t>(sizeof(header)));
  REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, seals) == 0);
  return fd;
}

SegmentHeader header_of(const Segment& segment) {
  SegmentHeader header{};
  std::memcpy(&header, segment.base(), sizeof(header));
  return header;
}

TEST_CASE("no two areas of a segment overlap, and slots and lanes begin on pages") {
  const SegmentLayout layout = small_layout();
  std::vector<std::pair<size_t, size_t>> areas;
  areas.emplace_back(0, sizeof(SegmentHeader));
  for (int ring = 0; ring < layout.rings; ++ring) {
    areas.emplace_back(layout.ring_offset(ring), sizeof(RingWords) + layout.ring_bytes);
  }
  for (int lane = 0; lane < layout.lanes; ++lane) areas.emplace_back(layout.lane_offset(lane), sizeof(LaneWords));
  for (int lane = 0; lane < layout.lanes; ++lane) {
    for (int slot = 0; slot < layout.slots; ++slot)
      areas.emplace_back(layout.input_offset(lane, slot), layout.slot_bytes);
    for (int slot = 0; slot < layout.slots; ++slot)
      areas.emplace_back(layout.result_offset(lane, slot), layout.slot_bytes);
  }
  size_t end = 0;
  for (const auto& [offset, bytes] : areas) {
    CHECK(offset >= end);
    CHECK((bytes < sizeof(LaneWords) || bytes == sizeof(RingWords) + layout.ring_bytes || offset % 4096 == 0));
    end = offset + bytes;
  }
  CHECK(layout.total_bytes() >= end);
}

TEST_CASE("every number of a layout changes its hash") {
  const SegmentLayout base = small_layout();
  const auto changed = [&](const std::function<void(SegmentLayout&)>& change) {
    SegmentLayout layout = base;
    change(layout);
    return layout.hash() != base.hash();
  };
  CHECK(changed([](SegmentLayout& layout) { ++layout.local_size; }));
  CHECK(changed([](SegmentLayout& layout) { ++layout.lanes; }));
  CHECK(changed([](SegmentLayout& layout) { ++layout.rings; }));
  CHECK(changed([](SegmentLayout& layout) { layout.ring_bytes *= 2; }));
  CHECK(changed([](SegmentLayout& layout) { ++layout.slots; }));
  CHECK(changed([](SegmentLayout& layout) { ++layout.slot_bytes; }));
  CHECK(small_layout().hash() == base.hash());
}

TEST_CASE("a segment is sealed, allocated in full, and named nowhere") {
  const size_t open_before = open_descriptors();
  {
    const auto segment = Segment::create(small_layout(), kSegmentEpoch, kRank);
    REQUIRE(segment.ok());
    const int fd = segment.value()->fd();
    struct stat file {};
    REQUIRE(::fstat(fd, &file) == 0);
    CHECK(static_cast<size_t>(file.st_size) == small_layout().total_bytes());
    CHECK(static_cast<size_t>(file.st_blocks) * 512 >= small_layout().total_bytes());
    CHECK((::fcntl(fd, F_GET_SEALS) & kSeals) == kSeals);
    CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    CHECK(::ftruncate(fd, 1) != 0);
    CHECK(file.st_nlink == 0);
    for (int i = 0; i < 100; ++i) {
      const auto mapped = Segment::map(fd, small_layout(), kSegmentEpoch, kRank);
      CHECK(mapped.ok());
    }
  }
  CHECK(open_descriptors() == open_before);
}

TEST_CASE("two maps in one process, also at the same time, are one mapping") {
  const auto segment = Segment::create(small_layout(), kSegmentEpoch, kRank).value();
  CHECK(Segment::map(segment->fd(), small_layout(), kSegmentEpoch, kRank).value() == segment);

  // Where the creator is another process, the mapper that comes first wins.
  const auto forged_fd = forged(small_layout().total_bytes(), kSeals, header_of(*segment));
  std::vector<std::shared_ptr<Segment>> mapped(4);
  std::vector<std::thread> threads;
  for (auto& one : mapped) {
    threads.emplace_back([&] { one = Segment::map(forged_fd.get(), small_layout(), kSegmentEpoch, kRank).value(); });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& one : mapped) CHECK(one == mapped[0]);
  CHECK(mapped[0] != segment);
}

TEST_CASE("another process that maps the descriptor sees what the owner writes") {
  const auto segment = Segment::create(small_layout(), kSegmentEpoch, kRank).value();
  segment->lane(1).posted.store(77);
  segment->result(1, 1)[9999] = std::byte{9};
  CHECK(in_child([&] {
          const auto mapped = Segment::map(segment->fd(), small_layout(), kSegmentEpoch, kRank);
          if (!mapped.ok() || mapped.value() == segment) return 1;
          if (mapped.value()->lane(1).posted.load() != 77) return 2;
          if (mapped.value()->result(1, 1)[9999] != std::byte{9}) return 3;
          mapped.value()->lane(1).posted.store(78);
          return 0;
        }) == 0);
  CHECK(segment->lane(1).posted.load() == 78);
}

TEST_CASE("a forked child has no mapping of its parent's segments") {
  const auto segment = Segment::create(small_layout(), kSegmentEpoch, kRank).value();
  CHECK(in_child([&] {
          unsigned char resident = 0;
          return ::mincore(segment->base(), 4096, &resident) != 0 && errno == ENOMEM ? 0 : 1;
        }) == 0);
}

TEST_CASE("a descriptor that is not the expected segment is refused with a sentence") {
  const auto segment = Segment::create(small_layout(), kSegmentEpoch, kRank).value();
  const size_t bytes = small_layout().total_bytes();
  const SegmentHeader good = header_of(*segment);
  const size_t open_before = open_descriptors();
  const auto sentence_of = [](const UniqueFd& fd) {
    const auto mapped = Segment::map(fd.get(), small_layout(), kSegmentEpoch, kRank);
    CHECK(mapped.status().code() == Code::kSystem);
    return mapped.status().sentence();
  };
  const auto with = [&](const std::function<void(SegmentHeader&)>& change) {
    SegmentHeader header = good;
    change(header);
    return sentence_of(forged(bytes, kSeals, header));
  };
  const std::string of = "shared memory: the descriptor of rank 2 ";
  CHECK(sentence_of(forged(bytes - 4096, kSeals, good)) ==
        of + "has " + std::to_string(bytes - 4096) + " bytes, expected " + std::to_string(bytes));
  CHECK(sentence_of(forged(bytes, 0, good)) == of + "is not sealed against resizing");
  CHECK(sentence_of(forged(bytes, F_SEAL_GROW | F_SEAL_SEAL, good)) == of + "is not sealed against resizing");
  CHECK(with([](SegmentHeader& header) { header.magic ^= 1; }) == of + "is not a segment: its magic number is wrong");
  CHECK(with([](SegmentHeader& header) { header.layout_hash ^= 1; }) ==
        of + "has other lanes, slots or rings than ours");
  CHECK(with([](SegmentHeader& header) { header.epoch = 4; }) == of + "is of epoch 4, expected 5");
  CHECK(with([](SegmentHeader& header) { header.rank = 1; }) == of + "is the segment of rank 1");
  CHECK(sentence_of(UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC))) == of + "is not a memory file");
  CHECK_FALSE(Segment::map(-1, small_layout(), kSegmentEpoch, kRank).ok());
  CHECK(open_descriptors() == open_before);
}

TEST_CASE("a segment that was refused under one name is not handed out under another") {
  const auto segment = Segment::create(small_layout(), kSegmentEpoch, kRank).value();
  CHECK_FALSE(Segment::map(segment->fd(), small_layout(), kSegmentEpoch + 1, kRank).ok());
  CHECK_FALSE(Segment::map(segment->fd(), small_layout(), kSegmentEpoch, kRank + 1).ok());
  CHECK(Segment::map(segment->fd(), small_layout(), kSegmentEpoch, kRank).ok());
}

TEST_CASE("where memfd_create is refused, an unnamed file in /dev/shm serves") {
  CHECK(in_child([&] {
          const long refused[] = {SYS_memfd_create};
          if (!refuse_calls(refused)) return 10;
          const auto segment = Segment::create(small_layout(), kSegmentEpoch, kRank);
          if (!segment.ok()) return 1;
          struct stat file {};
          if (::fstat(segment.value()->fd(), &file) != 0 || file.st_nlink != 0) return 2;
          segment.value()->lane(0).posted.store(11);
          // A peer, which is another process, takes it without seals.
          return in_child([&] {
            const auto mapped = Segment::map(segment.value()->fd(), small_layout(), kSegmentEpoch, kRank);
            return mapped.ok() && mapped.value()->lane(0).posted.load() == 11 ? 0 : 4;
          });
        }) == 0);
}

TEST_CASE("where neither kind of memory file is allowed, the sentence names both calls") {
  CHECK(in_child([] {
          const long refused[] = {SYS_memfd_create, SYS_openat};
          if (!refuse_calls(refused)) return 10;
          const auto segment = Segment::create(small_layout(), kSegmentEpoch, kRank);
          if (segment.ok() || segment.status().code() != Code::kSystem) return 1;
          const bool both =
              segment.status().sentence().find("memfd_create: Operation not permitted") != std::string::npos &&
              segment.status().sentence().find("O_TMPFILE in /dev/shm") != std::string::npos;
          return both ? 0 : 2;
        }) == 0);
}

TEST_CASE("more memory than there can be is refused with the number of bytes") {
  SegmentLayout layout = small_layout();
  layout.slot_bytes = size_t{1} << 58;
  const auto segment = Segment::create(layout, kSegmentEpoch, kRank);
  REQUIRE_FALSE(segment.ok());
  CHECK(segment.status().code() == Code::kSystem);
  CHECK(segment.status().sentence().find("a segment of " + std::to_string(layout.total_bytes()) + " bytes") !=
        std::string::npos);
}

}  // namespace
}  // namespace rueda::core
