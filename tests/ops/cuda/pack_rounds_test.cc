// The arithmetic of tiles, and the cut of a batch into rounds: also of tensors that no memory holds.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "ops/cuda/pack_plan.h"

namespace rueda::test {
namespace {

using core::Slice;
using cuda::kTileElements;
using cuda::PackPiece;
using cuda::PackPlan;
using cuda::PackRounds;

/// A sum of f32 by two ranks, as it is.
PackPlan plan_of_floats() {
  static const core::Team team{.ranks = {0, 1}, .groups = {2}, .hosts = {}};
  core::Call call;
  call.team = &team;
  return *cuda::pack_plan_of(call);
}

TEST_CASE("each element of each piece lies in one tile, also beyond 2^31 elements") {
  constexpr int64_t kHuge = 5'000'000'017;
  std::vector<PackPiece> pieces;
  uint32_t tiles = 0;
  for (const int64_t count : {int64_t{1}, kTileElements, kTileElements + 1, kHuge, int64_t{3}}) {
    pieces.push_back({nullptr, nullptr, count, 0, tiles, 0});
    tiles += cuda::tiles_of(count);
  }
  REQUIRE(tiles == 1 + 1 + 2 + 305'176 + 1);
  std::vector<int64_t> seen(pieces.size());
  bool good = true;
  for (uint32_t tile = 0; tile < tiles; ++tile) {
    const uint32_t piece = cuda::piece_of(pieces.data(), static_cast<uint32_t>(pieces.size()), tile, tiles);
    const int length = cuda::tile_length(pieces[piece], tile);
    good = good && cuda::tile_begin(pieces[piece], tile) == seen[piece] && length > 0 && length <= kTileElements;
    seen[piece] += length;
  }
  CHECK(good);
  for (size_t i = 0; i < pieces.size(); ++i) CHECK(seen[i] == pieces[i].count);
}

TEST_CASE("the elements before an aligned address are counted, and none is found if they do not lead there") {
  CHECK(cuda::elements_before(0x1000, 4, 16) == 0);
  CHECK(cuda::elements_before(0x1004, 4, 16) == 3);
  CHECK(cuda::elements_before(0x100e, 2, 8) == 1);
  CHECK(cuda::elements_before(0x1001, 4, 16) == -1);
  CHECK(cuda::elements_before(0x1001, 1, 16) == 15);
}

/// The pieces of all rounds, each round as text: "count@offset count@offset".
std::vector<std::string> rounds_of(const std::vector<int64_t>& counts, int64_t most_bytes, size_t most_pieces) {
  std::vector<Slice> slices;
  for (const int64_t count : counts) slices.push_back({nullptr, nullptr, count});
  PackRounds rounds(slices, plan_of_floats(), most_bytes, most_pieces);
  std::vector<std::string> all;
  std::vector<PackPiece> pieces;
  while (rounds.next(pieces)) {
    std::string text;
    uint32_t tiles = 0;
    for (const PackPiece& piece : pieces) {
      text += (text.empty() ? "" : " ") + std::to_string(piece.count) + "@" + std::to_string(piece.at);
      CHECK(piece.first_tile == tiles);
      tiles += cuda::tiles_of(piece.count);
    }
    CHECK(rounds.tiles() == tiles);
    CHECK(rounds.bytes() <= most_bytes);
    all.push_back(text);
  }
  return all;
}

TEST_CASE("a batch is cut where the buffer or the table is full, at offsets that 16 bytes divide") {
  using Rounds = std::vector<std::string>;
  CHECK(rounds_of({}, 64, 8).empty());
  CHECK(rounds_of({0, 0}, 64, 8).empty());
  CHECK(rounds_of({1, 0, 5, 4}, 64, 8) == Rounds{"1@0 5@16 4@48"});
  CHECK(rounds_of({1, 5, 6}, 64, 8) == Rounds{"1@0 5@16 4@48", "2@0"});
  CHECK(rounds_of({40}, 64, 8) == Rounds{"16@0", "16@0", "8@0"});
  CHECK(rounds_of({1, 1, 1, 1, 1}, 1024, 2) == Rounds{"1@0 1@16", "1@0 1@16", "1@0"});
  CHECK(rounds_of({3'000'000'000, 1}, INT64_MAX, 8) == Rounds{"3000000000@0 1@12000000000"});
}

TEST_CASE("a cut tensor's pieces are its elements in order, and a tensor that is not there has none") {
  std::vector<std::byte> memory(400);
  const std::vector<Slice> slices = {{memory.data(), memory.data() + 200, 40}, {nullptr, nullptr, 3}};
  PackRounds rounds(slices, plan_of_floats(), 64, 8);
  std::vector<PackPiece> pieces;
  for (const size_t done : {size_t{0}, size_t{16}, size_t{32}}) {
    REQUIRE(rounds.next(pieces));
    CHECK(pieces[0].in == memory.data() + done * sizeof(float));
    CHECK(pieces[0].out == memory.data() + 200 + done * sizeof(float));
  }
  REQUIRE(pieces.size() == 2);
  CHECK((pieces[1].in == nullptr && pieces[1].out == nullptr && pieces[1].count == 3));
  CHECK(!rounds.next(pieces));
}

}  // namespace
}  // namespace rueda::test
