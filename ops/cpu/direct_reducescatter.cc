// Reduction over channels after which every member has its own part: the first half of `direct`, with slices cut by
// owner.
//
//   step s:   send chunk s       a piece of each peer's part ─encode─▶ that peer;  expect N-1 pieces of the own part
//             fold chunk s-1     N pieces of the own part ─kernel─▶ own rows of the tensors
//
//   member 0, chunk k:    | piece for 0 | piece for 1 | piece for 2 |
//                           stays         ─▶ 1          ─▶ 2             from 1 and 2: their pieces for 0
//
// In a reduce the root owns everything and the others nothing: their pieces are empty, and so are the messages for
// them. Two chunks are in flight in two sets of memory, so that the network moves one while the kernel folds the other.
// 1 latency; B (N-1)/N bytes out and in for each member, the minimum.
#include "ops/cpu/direct_reducescatter.h"

#include <array>

#include "ops/cpu/channel_team.h"
#include "ops/owner_parts.h"
#include "ops/packing.h"

namespace rueda::core {

namespace {

/// One piece: large enough that its system calls weigh little. The pieces of a chunk together stay in the outer caches.
constexpr uint32_t kPieceBytes = 256 * 1024;
constexpr uint32_t kMostPiecesBytes = 4 << 20;
/// A reduce's root holds a piece of each member at once.
constexpr uint32_t kOneOwnerBytes = 1 << 20;

class DirectReduceScatter {
 public:
  DirectReduceScatter(const Call& call, Mesh& mesh, Deadline deadline)
      : packing_(call),
        parts_(call),
        pieces_(Pieces::of(call, parts_, packing_.element_bytes())),
        team_(call, mesh, deadline),
        folded_(packing_.cursor(parts_.of(team_.index()))),
        piece_bytes_(bytes(std::min(pieces_.length, parts_.longest()))),
        in_flight_{InFlight(piece_bytes_, team_.size()), InFlight(piece_bytes_, team_.size())} {
    for (int owner = 0; owner < team_.size(); ++owner) packed_.push_back(packing_.cursor(parts_.of(owner)));
  }

  /// Chunk s-1 is folded after chunk s is on its way.
  Status run() {
    RUEDA_RETURN_IF_ERROR(team_.connect_all());
    for (int64_t step = 0; step <= pieces_.number; ++step) {
      if (step < pieces_.number) RUEDA_RETURN_IF_ERROR(send(step));
      if (step > 0) RUEDA_RETURN_IF_ERROR(fold(step - 1));
    }
    return team_.until([&] { return team_.all_peers([](PeerStream& peer) { return peer.idle(); }); });
  }

 private:
  /// One chunk on its way: a piece for and a piece from every member, and how far each channel must have moved.
  struct InFlight {
    InFlight(size_t piece_bytes, int members)
        : out(piece_bytes * static_cast<size_t>(members)),
          in(piece_bytes * static_cast<size_t>(members)),
          sent(static_cast<size_t>(members)),
          received(static_cast<size_t>(members)) {}
    Scratch out, in;
    std::vector<uint64_t> sent, received;
  };

  size_t bytes(int64_t elements) const { return static_cast<size_t>(elements) * packing_.element_bytes(); }
  int64_t piece(int owner, int64_t chunk) const { return pieces_.length_of(parts_.count(owner), chunk); }
  InFlight& in_flight(int64_t chunk) { return in_flight_[static_cast<size_t>(chunk % 2)]; }

  Status send(int64_t chunk) {
    InFlight& one = in_flight(chunk);
    // The pieces of chunk s-2 must have left before this chunk is packed over them.
    RUEDA_RETURN_IF_ERROR(team_.until([&] { return team_.all_sent(one.sent); }));
    const size_t own = bytes(piece(team_.index(), chunk));
    // Each member begins with itself and goes round, so that not all send to the first member at once.
    for (int step = 0; step < team_.size(); ++step) {
      const int owner = team_.neighbour(step);
      const auto at = static_cast<size_t>(owner);
      const int64_t length = piece(owner, chunk);
      packing_.pack(packed_[at], length, one.out.at(at * piece_bytes_), StoreHint::kPlain);
      if (owner == team_.index()) continue;
      one.sent[at] = team_.peer(owner).send(one.out.part(at * piece_bytes_, bytes(length)));
      one.received[at] = team_.peer(owner).receive(one.in.part(at * piece_bytes_, own));
    }
    return {};
  }

  Status fold(int64_t chunk) {
    InFlight& one = in_flight(chunk);
    RUEDA_RETURN_IF_ERROR(team_.until([&] { return team_.all_received(one.received); }));
    // In the team's order, the own piece among them: the bits are those of an all-reduce.
    std::vector<const std::byte*> inputs;
    for (int member = 0; member < team_.size(); ++member) {
      const size_t offset = static_cast<size_t>(member) * piece_bytes_;
      inputs.push_back(member == team_.index() ? one.out.at(offset) : one.in.at(offset));
    }
    packing_.fold(folded_, piece(team_.index(), chunk), inputs);
    return {};
  }

  Packing packing_;
  OwnerParts parts_;
  Pieces pieces_;
  ChannelTeam team_;
  std::vector<SliceCursor> packed_;  // by owner
  SliceCursor folded_;
  size_t piece_bytes_;
  std::array<InFlight, 2> in_flight_;
};

}  // namespace

bool direct_reducescatter_fits(const BatchShape& shape) { return shape.device < 0 && shape.ranks > 1; }

AlgorithmChoice direct_reducescatter_plan(const BatchShape& shape) {
  if (shape.kind == OpKind::kReduce) return plan_pieces(shape, kOneOwnerBytes);
  return plan_pieces(shape, std::min(kMostPiecesBytes, kPieceBytes * static_cast<uint32_t>(shape.ranks)));
}

Status direct_reducescatter(const Call& call, Mesh& mesh, Deadline deadline) {
  return DirectReduceScatter(call, mesh, deadline).run();
}

}  // namespace rueda::core
