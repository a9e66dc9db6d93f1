#include "ops/chunks.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "ops/slice_cursor.h"

using namespace rueda::core;

TEST_CASE("The slices of a chunk cover it once, in order, each owned by another member") {
  for (const int members : {1, 2, 3, 7, 16, 33}) {
    for (const size_t bytes : {size_t{1}, size_t{2}, size_t{4}, size_t{8}}) {
      for (const int64_t length : {0, 1, 1000, 4096, 16384, 65535, 65536, 262144}) {
        for (const int64_t chunk : {0, 1, 5}) {
          const ChunkCut cut(chunk, length, bytes, members);
          std::set<int> owners;
          int64_t at = 0;
          for (int i = 0; i < cut.owners(); ++i) {
            const ElementRange slice = cut.slice(i);
            CHECK(slice.begin == std::min(at, length));
            at = slice.end;
            owners.insert(cut.member(i));
            CHECK(cut.slice_of(cut.member(i)).begin == slice.begin);
            CHECK(cut.slice_of(cut.member(i)).end == slice.end);
          }
          CHECK(at == length);
          CHECK(static_cast<int>(owners.size()) == cut.owners());
        }
      }
    }
  }
}

TEST_CASE("Slices begin at cache lines and are not under 16 KiB where there are several") {
  for (const int members : {2, 3, 8, 33}) {
    for (const int64_t length : {8192, 50000, 65536}) {
      const ChunkCut cut(0, length, 4, members);
      for (int i = 0; i < cut.owners(); ++i) CHECK(cut.slice(i).begin * 4 % 64 == 0);
      if (cut.owners() > 1) CHECK(cut.slice(0).length() * 4 >= ChunkCut::kMinSliceBytes);
    }
  }
}

TEST_CASE("Chunks with fewer owners than members take turns over the members") {
  std::set<int> owners;
  for (int64_t chunk = 0; chunk < 33; ++chunk) {
    const ChunkCut cut(chunk, 65536, 4, 33);
    for (int i = 0; i < cut.owners(); ++i) owners.insert(cut.member(i));
  }
  CHECK(owners.size() == 33);
}

TEST_CASE("A member that owns nothing has an empty slice") {
  const ChunkCut cut(0, 100, 4, 8);
  CHECK(cut.owners() == 1);
  CHECK(cut.slice_of(0).length() == 100);
  for (int member = 1; member < 8; ++member) CHECK(cut.slice_of(member).length() == 0);
}

TEST_CASE("A plan has a stamp for each chunk and two to spare") {
  CHECK(plan_chunks(0, 4096).stamps == 3);
  CHECK(plan_chunks(1, 4096).stamps == 3);
  CHECK(plan_chunks(4096, 4096).stamps == 3);
  CHECK(plan_chunks(4097, 4096).stamps == 4);
  CHECK(is_one_chunk(plan_chunks(4096, 4096)));
  CHECK_FALSE(is_one_chunk(plan_chunks(4097, 4096)));
}

TEST_CASE("A cursor walks tensors as one run, in pieces of any length, past empty ones") {
  std::vector<int32_t> numbers(100);
  std::iota(numbers.begin(), numbers.end(), 0);
  std::vector<Slice> slices;
  int64_t begin = 0;
  for (const int64_t count : {0, 1, 30, 0, 0, 9, 60, 0}) {
    auto* const at = reinterpret_cast<std::byte*>(numbers.data() + begin);
    slices.push_back({at, at, count});
    begin += count;
  }
  for (const int64_t step : {1, 2, 7, 33, 100}) {
    SliceCursor cursor(slices, sizeof(int32_t));
    int32_t next = 0;
    for (int64_t left = 100; left > 0; left -= step) {
      const int64_t length = std::min(left, step);
      if (next % 3 == 2) {
        cursor.skip(length);
        next += static_cast<int32_t>(length);
        continue;
      }
      cursor.take(length, [&](const std::byte* in, std::byte* out, int64_t count) {
        CHECK(in == out);
        CHECK(count > 0);
        for (int64_t i = 0; i < count; ++i) CHECK(reinterpret_cast<const int32_t*>(in)[i] == next++);
      });
    }
    CHECK(next == 100);
  }
}
