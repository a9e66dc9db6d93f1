// Counts are 64 bits wide from the request to the channel: up to 2^47 bytes, the limit of a tensor.
#include <catch2/catch.hpp>
#include <string>

#include "ops/chunks.h"
#include "ops/cpu/channel_team.h"
#include "ops/slice_cursor.h"
#include "runtime/agreement/messages.h"
#include "runtime/agreement/planner.h"
#include "tests/support/collective_case.h"
#include "tests/support/lane_ranks.h"
#include "tests/support/memory_channels.h"

using namespace rueda::core;

namespace {

constexpr uint64_t kMost = uint64_t{1} << 47;

/// Memory that must not be read: an address to count from.
std::byte* nowhere() { return reinterpret_cast<std::byte*>(uintptr_t{1} << 12); }

/// Kinds in which members can have parts of any size: they plan for the largest; all others for just their chunks.
bool plans_for_the_worst(OpKind kind) {
  return kind != OpKind::kAllreduce && kind != OpKind::kBroadcast && kind != OpKind::kSend;
}

std::string difference(const Chunks& chunks, const Algorithm& algorithm, const AlgorithmChoice& choice) {
  const int64_t last = chunks.number() - 1;
  if (last * chunks.length + chunks.length_of(last) != chunks.count) return "the chunks do not add up to the batch";
  const uint64_t stamps = static_cast<uint64_t>(chunks.number()) + 2;
  if (choice.stamps < stamps) return "a chunk has no stamp";
  if (choice.stamps > stamps && !plans_for_the_worst(algorithm.kind)) return "there are stamps without a chunk";
  const ChunkCut cut(last, chunks.length_of(last), 1, 4);
  int64_t covered = 0;
  for (int i = 0; i < cut.owners(); ++i) covered += cut.slice(i).length();
  return covered == chunks.length_of(last) ? "" : "the slices do not add up to the chunk";
}

}  // namespace

TEST_CASE("a tensor of 2^47 bytes is agreed on, planned and cut without losing a bit") {
  Request request;
  request.name = "large";
  request.metadata.dtype = Dtype::kI8;
  request.metadata.shape = {int64_t{1} << 40, 128};
  CHECK(why_not_valid(request) == "");
  WireWriter writer;
  put_metadata(writer, request.metadata);
  WireReader reader(writer.view());
  CHECK(get_metadata(reader).count() == static_cast<int64_t>(kMost));
  CHECK(reader.finished());

  Planner planner(64 << 20);
  for (uint64_t id = 1; id <= 2; ++id) planner.push(FuseKey(request.metadata), {id, 0, kMost});
  for (uint64_t id = 1; id <= 2; ++id) {
    Cut cut;
    planner.next(cut);
    REQUIRE(cut.tensors.size() == 1);
    CHECK(cut.tensors[0].bytes == kMost);
  }
  request.metadata.shape[1] = 129;
  CHECK_FALSE(why_not_valid(request) == "");
}

TEST_CASE("every algorithm plans 2^47 bytes in chunks that add up") {
  for (const Algorithm& algorithm : algorithms()) {
    for (const int hosts : {1, 2}) {
      BatchShape shape;
      shape.kind = algorithm.kind;
      shape.dtype = Dtype::kU8;
      shape.bytes = kMost;
      shape.ranks = 4;
      shape.one_host = hosts == 1;
      shape.hosts = hosts;
      shape.largest_host = 4 / hosts;
      if (algorithm.kind == OpKind::kBarrier || !algorithm.fits(shape)) continue;
      Call call;
      call.count = static_cast<int64_t>(kMost);
      call.choice = algorithm.plan(shape);
      if (call.choice.chunk_bytes == 0) continue;
      INFO(algorithm.name << " on " << hosts << " hosts");
      CHECK(difference(Chunks::of(call, 1), algorithm, call.choice) == "");
    }
  }
}

TEST_CASE("a walk over tensors of 2^46 bytes finds its place to the byte") {
  constexpr int64_t kHalf = int64_t{1} << 46;
  const Slice slices[] = {{nowhere(), nowhere(), kHalf}, {nowhere(), nowhere(), kHalf}};
  SliceCursor cursor(slices, 1);
  cursor.skip(kHalf - 3);
  std::vector<std::pair<int64_t, int64_t>> pieces;
  cursor.take(10,
              [&](const std::byte* in, std::byte*, int64_t length) { pieces.emplace_back(in - nowhere(), length); });
  cursor.skip(kHalf - 8);
  cursor.take(1,
              [&](const std::byte*, std::byte* out, int64_t length) { pieces.emplace_back(out - nowhere(), length); });
  CHECK(pieces == std::vector<std::pair<int64_t, int64_t>>{{kHalf - 3, 3}, {0, 7}, {kHalf - 1, 1}});
}

TEST_CASE("channels and their marks count 2^47 bytes each way") {
  MemoryHub hub(MemoryHub::Moves::kCounts);
  LaneRanks::Options options;
  options.hosts = {0, 1};
  options.channels = [&](int rank, const Abort& abort) { return hub.channel_set(rank, abort); };
  options.wake_channels = [&] { hub.wake_all(); };
  LaneRanks lanes(2, options);
  CHECK(lanes.first_failure([&](int rank, Mesh& mesh) -> Status {
    const Team own = team_of(2, rank);
    Call call;
    call.team = &own;
    ChannelTeam team(call, mesh, Deadline::never());
    RUEDA_RETURN_IF_ERROR(team.connect(1 - rank));
    PeerStream& peer = team.peer(1 - rank);
    uint64_t sent = 0;
    uint64_t received = 0;
    // Cut differently on both sides, and the last part by itself: its mark must not pass before it has moved.
    const uint64_t part = kMost / (rank == 0 ? 8 : 32);
    for (uint64_t done = part; done < kMost; done += part) {
      peer.receive({nowhere(), part});
      peer.send({nowhere(), part});
    }
    RUEDA_RETURN_IF_ERROR(team.until([&] { return peer.received((kMost - kMost / 8) / 2); }));
    received = peer.receive({nowhere(), part});
    sent = peer.send({nowhere(), part});
    RUEDA_RETURN_IF_ERROR(team.until([&] { return peer.sent(sent) && peer.received(received) && peer.idle(); }));
    return sent == kMost && received == kMost ? Status() : Status(Code::kSystem, "a mark is another number");
  }) == "");
  CHECK(hub.moved(0, 1) == kMost);
  CHECK(hub.moved(1, 0) == kMost);
}
