// All-reduce by recursive doubling: in each of log2(N) steps partners exchange everything they have and add it.
//
//   6 members, 4 = 2^2 take part; the first two pairs fold, so that each pair has one position
//
//   member     0 ─▶ 1    2 ─▶ 3    4     5
//   position        0          1    2     3          holds then, of members:
//   step 1          0 ◀──────▶ 1    2 ◀─▶ 3          0-3  0-3  4-5  4-5
//   step 2          0 ◀──▶ 2,  1 ◀──▶ 3              all  all  all  all
//   member     0 ◀─ 1    2 ◀─ 3                    the result goes back to the folded ones
//
// Each step waits for the bytes of the step before, since it sends their sum; so a chunk is all latency, and chunks run
// one after the other. Both partners add the same two values with the lower position first: then all hold equal bits.
// Thakur, Rabenseifner, Gropp, 2005, section 4. log2(N) latencies, two more if N is not a power of two; B log2(N)
// bytes.
#include "ops/cpu/doubling.h"

#include <bit>

#include "ops/chunks.h"
#include "ops/cpu/channel_team.h"
#include "ops/cpu/direct.h"
#include "ops/cpu/partials.h"

namespace rueda::core {

namespace {

constexpr uint32_t kDoublingChunkBytes = 256 * 1024;

/// Which members exchange. A position is a member's number among those that take part in the doubling; -1 if the member
/// folds into the one after it. With `folded_` such pairs at the front:
///
///   member     0  1  2  3 | 4  5  6        position     -  0  -  1 | 2  3  4
class Positions {
 public:
  explicit Positions(int members, int member)
      : taking_part_(static_cast<int>(std::bit_floor(static_cast<unsigned>(members)))),
        folded_(members - taking_part_),
        position_(member >= 2 * folded_ ? member - folded_
                  : member % 2 == 1     ? member / 2
                                        : -1) {}
  int taking_part() const { return taking_part_; }
  int position() const { return position_; }
  /// The member at a position; the inverse of `position`.
  int member(int position) const { return position < folded_ ? 2 * position + 1 : position + folded_; }
  /// Whether the member at this position has the member before it folded into it.
  bool has_folded(int position) const { return position >= 0 && position < folded_; }

 private:
  int taking_part_;
  int folded_;
  int position_;
};

class DoublingRun {
 public:
  DoublingRun(const Call& call, Mesh& mesh, Deadline deadline)
      : packing_(call),
        partials_(call, packing_),
        chunks_(Chunks::of(call, packing_.element_bytes())),
        team_(call, mesh, deadline),
        positions_(team_.size(), team_.index()),
        load_(packing_.cursor()),
        unpack_(packing_.cursor()),
        own_(longest() * partials_.element_bytes()),
        incoming_(longest() * partials_.element_bytes()),
        result_(longest() * packing_.element_bytes()) {}

  Status run() {
    RUEDA_RETURN_IF_ERROR(connect());
    for (int64_t chunk = 0; chunk < chunks_.number(); ++chunk) {
      length_ = chunks_.length_of(chunk);
      // In the partial type from the start: no hop rounds a 16-bit sum.
      partials_.load(load_, length_, own_.at(0));
      RUEDA_RETURN_IF_ERROR(positions_.position() < 0 ? hand_over() : take_part());
      packing_.unpack(unpack_, length_, result_.at(0));
    }
    return {};
  }

 private:
  size_t longest() const { return static_cast<size_t>(std::min(chunks_.length, chunks_.count)); }
  std::span<std::byte> partial(const Scratch& scratch) const {
    return scratch.part(0, static_cast<size_t>(length_) * partials_.element_bytes());
  }
  std::span<std::byte> result() const {
    return result_.part(0, static_cast<size_t>(length_) * packing_.element_bytes());
  }
  Status until_idle(int member) {
    return team_.until([&] { return team_.peer(member).idle(); });
  }

  Status connect() {
    if (positions_.position() < 0) return team_.connect(team_.index() + 1);
    if (positions_.has_folded(positions_.position())) RUEDA_RETURN_IF_ERROR(team_.connect(team_.index() - 1));
    for (int distance = 1; distance < positions_.taking_part(); distance *= 2) {
      RUEDA_RETURN_IF_ERROR(team_.connect(positions_.member(positions_.position() ^ distance)));
    }
    return {};
  }

  /// The work of a member that folds into the one after it: gives its input and takes the result.
  Status hand_over() {
    const int partner = team_.index() + 1;
    team_.peer(partner).send(partial(own_));
    team_.peer(partner).receive(result());
    return until_idle(partner);
  }

  /// The work of all others. `own_` holds the sum of a growing block of members.
  Status take_part() {
    const bool has_folded = positions_.has_folded(positions_.position());
    if (has_folded) {
      team_.peer(team_.index() - 1).receive(partial(incoming_));
      RUEDA_RETURN_IF_ERROR(until_idle(team_.index() - 1));
      partials_.combine(incoming_.at(0), own_.at(0), own_.at(0), length_);
    }
    for (int distance = 1; distance < positions_.taking_part(); distance *= 2) {
      const int position = positions_.position() ^ distance;
      const int partner = positions_.member(position);
      team_.peer(partner).send(partial(own_));
      team_.peer(partner).receive(partial(incoming_));
      RUEDA_RETURN_IF_ERROR(until_idle(partner));
      // Which one comes first shows in the sign of a zero minimum only, and there it must be the same for both.
      const bool partner_first = position < positions_.position();
      partials_.combine(partner_first ? incoming_.at(0) : own_.at(0), partner_first ? own_.at(0) : incoming_.at(0),
                        own_.at(0), length_);
    }
    partials_.finish(own_.at(0), result_.at(0), length_);
    if (!has_folded) return {};
    team_.peer(team_.index() - 1).send(result());
    return until_idle(team_.index() - 1);
  }

  Packing packing_;
  Partials partials_;
  Chunks chunks_;
  ChannelTeam team_;
  Positions positions_;
  SliceCursor load_, unpack_;
  Scratch own_, incoming_, result_;
  int64_t length_ = 0;  // elements of the chunk at hand
};

}  // namespace

bool doubling_fits(const BatchShape& shape) { return shape.device < 0 && shape.ranks > 1; }

/// Chunks matter for forced use only: the selector takes doubling for batches far below one chunk.
AlgorithmChoice doubling_plan(const BatchShape& shape) { return plan_chunks(wire_bytes(shape), kDoublingChunkBytes); }

Status doubling(const Call& call, Mesh& mesh, Deadline deadline) {
  if (!partials_serve(call)) return direct(call, mesh, deadline);
  return DoublingRun(call, mesh, deadline).run();
}

}  // namespace rueda::core
