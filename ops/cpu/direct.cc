// All-reduce in which every input goes straight to the member that reduces it. direct.h shows the exchange; this is its
// pipeline over chunks:
//
//   step s:   scatter chunk s        slice i of the own inputs ─▶ member i;  expect the own slice's inputs of all
//             reduce chunk s-1       own slice: N inputs ─kernel─▶ result ─▶ all;  expect the other slices' results
//             unpack chunk s-2       results ─decode─▶ tensors
//
//   bytes on every channel, in both directions:   scatter 0, scatter 1, gather 0, scatter 2, gather 1, ...
//
// A channel is a byte stream without headers, so all members must queue sends and receives in exactly this order. Two
// chunks are in flight in two sets of memory; chunk s reuses the set of chunk s-2 although that is unpacked only later
// in the same step. This is safe: its inputs were used up when it was reduced, and its results lie in memory that
// scatter does not touch.
//
// Cost for B bytes and N members: 2 latencies, 2 B (N-1)/N bytes out and in (Thakur, Rabenseifner, Gropp, 2005, section
// 4).
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

/// One chunk on its way. A mark says how far a member's stream must have moved for a step to be through.
struct InFlight {
  InFlight(size_t slice_bytes, int members)
      : inputs(slice_bytes * static_cast<size_t>(members)),
        scatter_sent(static_cast<size_t>(members)),
        scattered(scatter_sent),
        gather_sent(scatter_sent),
        gathered(scatter_sent) {}

  const std::byte* own = nullptr;                                        // own inputs of the whole chunk
  std::byte* results = nullptr;                                          // of the whole chunk
  std::unique_ptr<Scratch> packed, unpacked;                             // their memory, if the tensor cannot be used
  Scratch inputs;                                                        // of the own slice, by member
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
        gather_(packing_.cursor()),
        unpack_(packing_.cursor()) {}

  Status run() {
    RUEDA_RETURN_IF_ERROR(team_.connect_all());
    const int64_t number = chunks_.number();
    for (int64_t step = 0; step < number + 2; ++step) {
      if (step < number) RUEDA_RETURN_IF_ERROR(scatter(step));
      if (step >= 1 && step - 1 < number) RUEDA_RETURN_IF_ERROR(reduce_and_gather(step - 1));
      if (step >= 2) RUEDA_RETURN_IF_ERROR(unpack(step - 2));
    }
    // The last results leave from the caller's tensors or from memory of this run.
    return team_.until([&] { return team_.all_peers([](PeerStream& peer) { return peer.idle(); }); });
  }

 private:
  Status all_sent(const std::vector<uint64_t>& marks) {
    return team_.until([&] { return team_.all_sent(marks); });
  }
  Status all_received(const std::vector<uint64_t>& marks) {
    return team_.until([&] { return team_.all_received(marks); });
  }

  ChunkCut cut(int64_t chunk) const { return {chunk, chunks_.length_of(chunk), element_, team_.size()}; }
  size_t bytes(int64_t elements) const { return static_cast<size_t>(elements) * element_; }
  template <typename Byte>
  std::span<Byte> part(Byte* chunk, ElementRange range) const {
    return {chunk + bytes(range.begin), bytes(range.length())};
  }
  int64_t longest() const { return std::min(chunks_.length, chunks_.count); }
  std::byte* memory(std::unique_ptr<Scratch>& scratch) const {
    if (scratch == nullptr) scratch = std::make_unique<Scratch>(bytes(longest()));
    return scratch->at(0);
  }
  InFlight& in_flight(int64_t chunk) {
    auto& slot = in_flight_[static_cast<size_t>(chunk % 2)];
    if (slot == nullptr) {
      // A short last chunk has fewer owners, and its slices may be the longer ones.
      const int64_t slice = std::max(cut(0).slice(0).length(), cut(chunks_.number() - 1).slice(0).length());
      slot = std::make_unique<InFlight>(bytes(slice), team_.size());
    }
    return *slot;
  }

  /// The own inputs of a chunk. If one tensor has all of them and they travel as they are, they are sent from the
  /// tensor.
  const std::byte* own(InFlight& one, int64_t length) {
    const std::byte* tensor = packing_.as_is() ? pack_.stretch(length).in : nullptr;
    if (tensor != nullptr) {
      pack_.skip(length);
      return tensor;
    }
    packing_.pack(pack_, length, memory(one.packed), StoreHint::kPlain);
    return memory(one.packed);
  }
  /// The memory for a chunk's results: the tensor itself if one tensor has the whole chunk and nothing is to be
  /// decoded.
  std::byte* results(InFlight& one, int64_t length) {
    std::byte* tensor = packing_.decodes() ? nullptr : gather_.stretch(length).out;
    gather_.skip(length);
    return tensor != nullptr ? tensor : memory(one.unpacked);
  }

  Status scatter(int64_t chunk) {
    InFlight& one = in_flight(chunk);
    // The packed inputs of chunk s-2 must have left before this chunk is packed over them.
    RUEDA_RETURN_IF_ERROR(all_sent(one.scatter_sent));
    one.own = own(one, chunks_.length_of(chunk));
    const ChunkCut slices = cut(chunk);
    const size_t own = bytes(slices.slice_of(team_.index()).length());
    // Each member begins with its next neighbour, so that not all send to the first member at once.
    for (int step = 1; step < team_.size(); ++step) {
      const int member = team_.neighbour(step);
      const auto at = static_cast<size_t>(member);
      one.scatter_sent[at] = team_.peer(member).send(part(one.own, slices.slice_of(member)));
      one.scattered[at] = team_.peer(member).receive(one.inputs.part(at * own, own));
    }
    return {};
  }

  Status reduce_and_gather(int64_t chunk) {
    InFlight& one = in_flight(chunk);
    RUEDA_RETURN_IF_ERROR(all_received(one.scattered));
    // In place, results are received in the tensor that the inputs were sent from: those must have left before. And the
    // results of chunk s-2 must have left before these are written over them.
    RUEDA_RETURN_IF_ERROR(all_sent(one.scatter_sent));
    RUEDA_RETURN_IF_ERROR(all_sent(one.gather_sent));
    const ChunkCut slices = cut(chunk);
    const ElementRange range = slices.slice_of(team_.index());
    one.results = results(one, chunks_.length_of(chunk));
    const auto result = part(one.results, range);
    if (range.length() > 0) {
      // In the team's order, the own input among them: the bracket is the same whoever owns the slice.
      std::vector<const std::byte*> inputs;
      for (int member = 0; member < team_.size(); ++member) {
        inputs.push_back(member == team_.index() ? part(one.own, range).data()
                                                 : one.inputs.at(static_cast<size_t>(member) * result.size()));
      }
      reduce(packing_.task(), inputs, result.data(), StoreHint::kPlain, nullptr, range.length());
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
    const int64_t length = chunks_.length_of(chunk);
    if (one.unpacked != nullptr && one.results == one.unpacked->at(0)) {
      packing_.unpack(unpack_, length, one.results);
    } else {
      unpack_.skip(length);  // the channels and the kernel have written the tensor itself
    }
    return {};
  }

  Packing packing_;
  size_t element_;
  Chunks chunks_;
  ChannelTeam team_;
  SliceCursor pack_, gather_, unpack_;
  std::array<std::unique_ptr<InFlight>, 2> in_flight_;
};

}  // namespace

bool direct_fits(const BatchShape& shape) { return shape.device < 0 && shape.ranks > 1; }

/// A chunk has a slice of `kSliceBytes` for each rank, until scratch memory would grow too large.
AlgorithmChoice direct_plan(const BatchShape& shape) {
  const uint32_t chunk = std::min(kMostChunkBytes, kSliceBytes * static_cast<uint32_t>(shape.ranks));
  return plan_chunks(wire_bytes(shape), chunk);
}

Status direct(const Call& call, Mesh& mesh, Deadline deadline) { return DirectRun(call, mesh, deadline).run(); }

}  // namespace rueda::core
