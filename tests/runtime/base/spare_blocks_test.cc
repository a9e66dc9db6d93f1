// Blocks that go round: what is taken is apart from all else that is taken, whichever thread gives it back.
#include "runtime/base/spare_blocks.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace rueda::test {
namespace {

using core::SpareBlocks;

constexpr size_t kBytes = 200;

std::vector<void*> take(size_t count, size_t bytes) {
  std::vector<void*> all;
  for (size_t i = 0; i < count; ++i) {
    all.push_back(SpareBlocks::take(bytes));
    std::memset(all.back(), static_cast<int>(i), bytes);
  }
  return all;
}

/// Gives blocks of `take` back, and returns how many of them held what was written to them, apart from all others.
size_t give(const std::vector<void*>& all, size_t bytes) {
  size_t intact = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto* const block = static_cast<const uint8_t*>(all[i]);
    intact += block[0] == i % 256 && block[bytes - 1] == i % 256 ? 1 : 0;
    SpareBlocks::give(all[i], bytes);
  }
  return intact;
}

}  // namespace

TEST_CASE("blocks in use are apart, also if more are given back than a thread keeps") {
  for (const size_t count : std::vector<size_t>{1, 5, 3000, 10, 1024}) {
    const std::vector<void*> blocks = take(count, kBytes);
    CHECK(std::set<void*>(blocks.begin(), blocks.end()).size() == count);
    CHECK(give(blocks, kBytes) == count);
  }
}

TEST_CASE("blocks of another size are what they are said to be") {
  CHECK(give(take(10, kBytes), kBytes) == 10);
  for (const size_t bytes : {size_t{1}, size_t{8}, kBytes + 1, size_t{4096}}) CHECK(give(take(20, bytes), bytes) == 20);
  CHECK(give(take(10, kBytes), kBytes) == 10);
}

TEST_CASE("a thread may give what another has taken, and what it kept goes with it") {
  for (int round = 0; round < 3; ++round) {
    const std::vector<void*> blocks = take(500, kBytes);
    size_t others = 0, own = 0;
    std::thread([&] {
      others = give(blocks, kBytes);
      own = give(take(300, kBytes), kBytes) + give(take(300, kBytes), kBytes);
    }).join();
    CHECK(others == 500);
    CHECK(own == 600);
  }
}

TEST_CASE("objects in such blocks are made and destroyed once each") {
  struct Counted {
    explicit Counted(int& count) : alive(count) { ++alive; }
    ~Counted() { --alive; }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    int& alive;
    std::array<char, 100> more{};
  };
  int alive = 0;
  std::vector<std::shared_ptr<Counted>> all;
  for (int i = 0; i < 50; ++i) {
    all.push_back(std::allocate_shared<Counted>(core::SpareBlockAllocator<Counted>(), alive));
    if (i % 3 == 0) all.erase(all.begin() + i / 5);
  }
  CHECK(alive == static_cast<int>(all.size()));
  all.clear();
  CHECK(alive == 0);
}

}  // namespace rueda::test
