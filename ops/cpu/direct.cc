#include "ops/cpu/direct.h"

#include <array>

#include "ops/chunks.h"
#include "ops/cpu/channel_team.h"
#include "ops/packing.h"

namespace rueda::core {

namespace {

// Large enough that the system calls of a slice weigh little, small enough that scratch stays in the outer caches.
constexpr uint32_t kSliceBytes = 256 * 1024;
constexpr uint32_t kMostChunkBytes = 4 << 20;

/// One chunk on its way.
struct InFlight {
  InFlight(size_t chunk_bytes, size_t slice_bytes, int members)
      : packed(chunk_bytes),
        inputs(slice_bytes * static_cast<size_t>(members)),
        results(chunk_bytes),
        scatter_sent(static_cast<size_t>(members)),
        scattered(scatter_sent),
        gather_sent(scatter_sent),
        gathered(scatter_sent) {}

  Scratch packed;                                                        // own inputs of the whole chunk
  Scratch inputs;                                                        // of the own slice, by member
  Scratch results;                                                       // of the whole chunk
  std::vector<uint64_t> scatter_sent, scattered, gather_sent, gathered;  // marks, by member
};

class DirectRun {
 public:
  DirectRun(const Call& call, Mesh& mesh, Deadline deadline)
      : packing_(call),
        element_(packing_.element_bytes()),
        chunks_(Chunks::of(call, element_)),
        team_(call, mesh, deadline),
        pack_(packing_.cursor()),
        unpack_(packing_.cursor()) {}

  Status run() {
    RUEDA_RETURN_IF_ERROR(team_.connect_all());
    const int64_t number = chunks_.number();
    for (int64_t step = 0; step < number + 2; ++step) {
      if (step < number) RUEDA_RETURN_IF_ERROR(scatter(step));
      if (step >= 1 && step - 1 < number) RUEDA_RETURN_IF_ERROR(reduce_and_gather(step - 1));
      if (step >= 2) RUEDA_RETURN_IF_ERROR(unpack(step - 2));
    }
    return team_.until([&] { return all([&](int member) { return team_.peer(member).idle(); }); });
  }

 private:
  template <typename Condition>
  bool all(Condition&& condition) {
    for (int member = 0; member < team_.size(); ++member) {
      if (member != team_.index() && !condition(member)) return false;
    }
    return true;
  }
  Status all_sent(const std::vector<uint64_t>& marks) {
    return team_.until([&] { return all([&](int m) { return team_.peer(m).sent(marks[static_cast<size_t>(m)]); }); });
  }
  Status all_received(const std::vector<uint64_t>& marks) {
    return team_.until(
        [&] { return all([&](int m) { return team_.peer(m).received(marks[static_cast<size_t>(m)]); }); });
  }

  ChunkCut cut(int64_t chunk) const { return {chunk, chunks_.length_of(chunk), element_, team_.size()}; }
  size_t bytes(int64_t elements) const { return static_cast<size_t>(elements) * element_; }
  std::span<std::byte> part(const Scratch& scratch, ElementRange range) const {
    return scratch.part(bytes(range.begin), bytes(range.length()));
  }
  InFlight& in_flight(int64_t chunk) {
    auto& place = in_flight_[static_cast<size_t>(chunk % 2)];
    if (place == nullptr) {
      const int64_t longest = std::min(chunks_.length, chunks_.count);
      // A short last chunk has fewer owners, and its slices may be the longer ones.
      const int64_t slice = std::max(cut(0).slice(0).length(), cut(chunks_.number() - 1).slice(0).length());
      place = std::make_unique<InFlight>(bytes(longest), bytes(slice), team_.size());
    }
    return *place;
  }

  Status scatter(int64_t chunk) {
    InFlight& one = in_flight(chunk);
    RUEDA_RETURN_IF_ERROR(all_sent(one.scatter_sent));
    packing_.pack(pack_, chunks_.length_of(chunk), one.packed.at(0), StoreHint::kPlain);
    const ChunkCut slices = cut(chunk);
    const size_t own = bytes(slices.slice_of(team_.index()).length());
    // Beginning behind the own place, so that the members do not all send to the first one at once.
    for (int step = 1; step < team_.size(); ++step) {
      const int member = team_.neighbour(step);
      const auto at = static_cast<size_t>(member);
      one.scatter_sent[at] = team_.peer(member).send(part(one.packed, slices.slice_of(member)));
      one.scattered[at] = team_.peer(member).receive(one.inputs.part(at * own, own));
    }
    return {};
  }

  Status reduce_and_gather(int64_t chunk) {
    InFlight& one = in_flight(chunk);
    RUEDA_RETURN_IF_ERROR(all_received(one.scattered));
    RUEDA_RETURN_IF_ERROR(all_sent(one.gather_sent));
    const ChunkCut slices = cut(chunk);
    const ElementRange own = slices.slice_of(team_.index());
    const auto result = part(one.results, own);
    if (own.length() > 0) {
      std::vector<const std::byte*> inputs;
      for (int member = 0; member < team_.size(); ++member) {
        inputs.push_back(member == team_.index() ? part(one.packed, own).data()
                                                 : one.inputs.at(static_cast<size_t>(member) * result.size()));
      }
      reduce(packing_.task(), inputs, result.data(), StoreHint::kPlain, nullptr, own.length());
    }
    for (int step = 1; step < team_.size(); ++step) {
      const int member = team_.neighbour(step);
      const auto at = static_cast<size_t>(member);
      one.gather_sent[at] = team_.peer(member).send(result);
      one.gathered[at] = team_.peer(member).receive(part(one.results, slices.slice_of(member)));
    }
    return {};
  }

  Status unpack(int64_t chunk) {
    InFlight& one = in_flight(chunk);
    RUEDA_RETURN_IF_ERROR(all_received(one.gathered));
    packing_.unpack(unpack_, chunks_.length_of(chunk), one.results.at(0));
    return {};
  }

  Packing packing_;
  size_t element_;
  Chunks chunks_;
  ChannelTeam team_;
  SliceCursor pack_, unpack_;
  std::array<std::unique_ptr<InFlight>, 2> in_flight_;
};

}  // namespace

bool direct_fits(const BatchShape& shape) { return shape.device < 0 && shape.ranks > 1; }

RowChoice direct_plan(const BatchShape& shape) {
  const uint32_t chunk = std::min(kMostChunkBytes, kSliceBytes * static_cast<uint32_t>(shape.ranks));
  return plan_chunks(wire_bytes(shape), chunk);
}

Status direct(const Call& call, Mesh& mesh, Deadline deadline) { return DirectRun(call, mesh, deadline).run(); }

}  // namespace rueda::core
