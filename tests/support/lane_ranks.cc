// Ranks as threads around the meshes of one lane. All ranks of a host get the same `Segment` objects: with a mapping
// each, a race detector would see different addresses and miss races.
#include "tests/support/lane_ranks.h"

#include <stdexcept>
#include <thread>

namespace rueda::core {

namespace {

constexpr uint64_t kEpoch = 1;

bool same_host(const std::vector<int>& hosts, int a, int b) {
  return hosts.empty() || hosts[static_cast<size_t>(a)] == hosts[static_cast<size_t>(b)];
}

std::shared_ptr<Segment> make_segment(const SegmentLayout& layout, int rank) {
  auto segment = Segment::create(layout, kEpoch, rank);
  if (!segment.ok()) throw std::runtime_error(segment.status().sentence());
  return std::move(segment).value();
}

/// More than any case needs; pages come with use.
constexpr size_t kArenaBytes = size_t{256} << 20;

std::shared_ptr<TensorArena> make_arena() {
  auto arena = TensorArena::create(kArenaBytes);
  if (!arena.ok()) throw std::runtime_error(arena.status().sentence());
  return std::move(arena).value();
}

}  // namespace

SegmentLayout LaneRanks::small_layout() {
  SegmentLayout layout;
  layout.lanes = 1;
  layout.rings = 1;
  layout.ring_bytes = 4096;
  return layout;
}

LaneRanks::LaneRanks(int size, Options options) : options_(std::move(options)) {
  options_.layout.local_size = size;
  for (int rank = 0; rank < size; ++rank) {
    segments_.push_back(make_segment(options_.layout, rank));
    arenas_.push_back(make_arena());
    aborts_.push_back(std::make_unique<Abort>());
  }
  for (int rank = 0; rank < size; ++rank) {
    std::vector<std::shared_ptr<Segment>> seen;
    std::vector<std::shared_ptr<TensorArena>> arenas;
    for (int peer = 0; peer < size; ++peer) {
      const bool near = same_host(options_.hosts, rank, peer);
      seen.push_back(near ? segments_[static_cast<size_t>(peer)] : nullptr);
      arenas.push_back(near ? arenas_[static_cast<size_t>(peer)] : nullptr);
    }
    const Abort& abort = *aborts_[static_cast<size_t>(rank)];
    meshes_.push_back(std::make_unique<Mesh>(rank, 0, std::move(seen),
                                             options_.channels ? options_.channels(rank, abort) : nullptr, abort,
                                             options_.wait_style));
    meshes_.back()->use_arenas(std::move(arenas));
  }
}

void LaneRanks::abort_all(const Status& why) {
  for (const auto& abort : aborts_) abort->raise(why);
  for (const auto& segment : segments_) ring_always(segment->lane(0).bell);
  if (options_.wake_channels) options_.wake_channels();
}

std::vector<Status> LaneRanks::run(const Body& body) {
  std::vector<Status> results(static_cast<size_t>(size()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size(); ++rank) {
    threads.emplace_back([this, rank, &body, &results] {
      Status result = body(rank, mesh(rank));
      if (!result.ok() && first_.raise(result)) abort_all(result);
      results[static_cast<size_t>(rank)] = std::move(result);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

std::string LaneRanks::first_failure(const Body& body) {
  for (const Status& result : run(body)) {
    if (!result.ok()) return first_.why().sentence();
  }
  return "";
}

}  // namespace rueda::core
