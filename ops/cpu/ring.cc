// All-reduce round a ring; Patarasuk and Yuan, 2009. Member m only sends to m+1 and receives from m-1.
//
//   3 members; what member m has of the three parts after each step (the members in each sum)
//
//   step                  m = 0              m = 1              m = 2
//   start                 0    0    0        1    1    1        2    2    2
//   0   sends part m      0    0    02       01   1    1        2    12   2
//   1   sends part m-1    0    012  02       01   1    012      012  12   2       member m finishes part m+1
//   2   sends part m+1    R    R    -        -    R    R        R    -    R       the results go round
//   3   sends part m      R    R    R        R    R    R        R    R    R
//
// Step t waits for what step t-1 brought, because it sends just that on: the sum with the own input added, or the
// result. That wait is a latency in which nothing would move, so two chunks go round at the same time: while one is on
// its way, the other is added up. 2 (N-1) steps; 2 B (N-1)/N bytes out and in per member, the minimum, over two
// sockets.
#include "ops/cpu/ring.h"

#include <array>

#include "ops/chunks.h"
#include "ops/cpu/channel_team.h"
#include "ops/cpu/direct.h"
#include "ops/cpu/partials.h"

namespace rueda::core {

namespace {

// One part: large enough for few system calls, small enough that adding it hits the cache.
constexpr uint32_t kPartBytes = 256 * 1024;
constexpr uint32_t kMostRingChunkBytes = 4 << 20;
constexpr size_t kChunksOnTheRing = 2;

class RingRun {
 public:
  RingRun(const Call& call, Mesh& mesh, Deadline deadline)
      : packing_(call),
        partials_(call, packing_),
        chunks_(Chunks::of(call, packing_.element_bytes())),
        team_(call, mesh, deadline),
        load_(packing_.cursor()),
        unpack_(packing_.cursor()) {
    const int64_t longest = std::min(chunks_.length, chunks_.count);
    for (auto& one : in_flight_) {
      one = std::make_unique<InFlight>(static_cast<size_t>(longest) * partials_.element_bytes(),
                                       static_cast<size_t>(longest) * packing_.element_bytes(),
                                       static_cast<size_t>(part_length(longest)) * partials_.element_bytes());
    }
  }

  /// Chunks in pairs. The last one may go round alone.
  Status run() {
    RUEDA_RETURN_IF_ERROR(team_.connect(next()));
    if (next() != previous()) RUEDA_RETURN_IF_ERROR(team_.connect(previous()));
    for (int64_t chunk = 0; chunk < chunks_.number(); chunk += kChunksOnTheRing) {
      RUEDA_RETURN_IF_ERROR(go_round(chunk, std::min<int64_t>(kChunksOnTheRing, chunks_.number() - chunk)));
    }
    return {};
  }

 private:
  struct InFlight {
    InFlight(size_t partial_bytes, size_t wire_bytes, size_t part_bytes)
        : partials(partial_bytes), results(wire_bytes), incoming(part_bytes) {}
    Scratch partials;  // own inputs, then sums of more and more members
    Scratch results;   // in the wire type, if the tensor cannot be used
    std::byte* result = nullptr;
    Scratch incoming;  // one part, to be added
    uint64_t received = 0;
    int64_t length = 0;
  };

  int next() const { return team_.neighbour(1); }
  int previous() const { return team_.neighbour(-1); }
  int steps() const { return team_.size() - 1; }
  int64_t part_length(int64_t length) const { return (length + team_.size() - 1) / team_.size(); }
  /// Part `number`, counted round the ring in either direction: `number` may be negative.
  ElementRange part(const InFlight& one, int number) const {
    const int64_t each = part_length(one.length);
    const int64_t index = (number % team_.size() + team_.size()) % team_.size();
    return {std::min(one.length, index * each), std::min(one.length, (index + 1) * each)};
  }
  static std::span<std::byte> bytes(std::byte* chunk, ElementRange range, size_t element_bytes) {
    return {chunk + static_cast<size_t>(range.begin) * element_bytes,
            static_cast<size_t>(range.length()) * element_bytes};
  }

  /// Takes `count` chunks from `first` on round the ring, step by step in turn: each moves while the others are worked
  /// on.
  Status go_round(int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      InFlight& one = *in_flight_[static_cast<size_t>(i)];
      one.length = chunks_.length_of(first + i);
      // Inputs are loaded into scratch first, so that the tensor, input too if in place, is free for the results.
      std::byte* tensor = packing_.decodes() ? nullptr : load_.stretch(one.length).out;
      one.result = tensor != nullptr ? tensor : one.results.at(0);
      partials_.load(load_, one.length, one.partials.at(0));
    }
    for (int step = 0; step < 2 * steps(); ++step) {
      for (int64_t i = 0; i < count; ++i) {
        InFlight& one = *in_flight_[static_cast<size_t>(i)];
        RUEDA_RETURN_IF_ERROR(take_in(one, step));
        send_on(one, step);
      }
    }
    for (int64_t i = 0; i < count; ++i) {
      InFlight& one = *in_flight_[static_cast<size_t>(i)];
      RUEDA_RETURN_IF_ERROR(take_in(one, 2 * steps()));
      if (one.result == one.results.at(0)) {
        packing_.unpack(unpack_, one.length, one.result);
      } else {
        unpack_.skip(one.length);  // it was received in the tensor
      }
    }
    // The next pair of chunks is loaded over what still leaves.
    return team_.until([&] { return team_.peer(next()).idle(); });
  }

  /// Waits for what step - 1 brought. In the first half adds the own input to it; the last sum of that half is whole
  /// and is finished here, by this member alone, so that all members get the same bits.
  Status take_in(InFlight& one, int step) {
    if (step == 0) return {};
    RUEDA_RETURN_IF_ERROR(team_.until([&] { return team_.peer(previous()).received(one.received); }));
    if (step > steps()) return {};  // a result: it was received where it belongs
    const ElementRange range = part(one, team_.index() - step);
    std::byte* own = bytes(one.partials.at(0), range, partials_.element_bytes()).data();
    partials_.combine(one.incoming.at(0), own, own, range.length());
    if (step == steps()) {
      partials_.finish(own, bytes(one.result, range, packing_.element_bytes()).data(), range.length());
    }
    return {};
  }

  /// Sends the part that `take_in` left ready and expects the next. `incoming` is free again: it has just been added.
  void send_on(InFlight& one, int step) {
    const bool scatters = step < steps();
    std::byte* from = scatters ? one.partials.at(0) : one.result;
    const size_t element = scatters ? partials_.element_bytes() : packing_.element_bytes();
    team_.peer(next()).send(bytes(from, part(one, team_.index() - step), element));
    const ElementRange coming = part(one, team_.index() - step - 1);
    const auto into = scatters ? one.incoming.part(0, static_cast<size_t>(coming.length()) * element)
                               : bytes(one.result, coming, element);
    one.received = team_.peer(previous()).receive(into);
  }

  Packing packing_;
  Partials partials_;
  Chunks chunks_;
  ChannelTeam team_;
  SliceCursor load_, unpack_;
  std::array<std::unique_ptr<InFlight>, kChunksOnTheRing> in_flight_;
};

}  // namespace

bool ring_fits(const BatchShape& shape) { return shape.device < 0 && shape.ranks > 1; }

/// A chunk has a part of `kPartBytes` for each rank, until scratch memory would grow too large.
AlgorithmChoice ring_plan(const BatchShape& shape) {
  const uint32_t chunk = std::min(kMostRingChunkBytes, kPartBytes * static_cast<uint32_t>(shape.ranks));
  return plan_chunks(wire_bytes(shape), chunk);
}

Status ring(const Call& call, Mesh& mesh, Deadline deadline) {
  if (!partials_serve(call)) return direct(call, mesh, deadline);
  return RingRun(call, mesh, deadline).run();
}

}  // namespace rueda::core
