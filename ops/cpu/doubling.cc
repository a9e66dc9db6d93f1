#include "ops/cpu/doubling.h"

#include <bit>

#include "ops/chunks.h"
#include "ops/cpu/channel_team.h"
#include "ops/cpu/direct.h"
#include "ops/cpu/partials.h"

namespace rueda::core {

namespace {

constexpr uint32_t kDoublingChunkBytes = 256 * 1024;

/// Who exchanges with whom. `place` counts the members that take part in the doubling; -1: folded into `partner`.
class Places {
 public:
  explicit Places(int members, int member)
      : taking_part_(static_cast<int>(std::bit_floor(static_cast<unsigned>(members)))),
        folded_(members - taking_part_),
        place_(member >= 2 * folded_ ? member - folded_
               : member % 2 == 1     ? member / 2
                                     : -1) {}
  int taking_part() const { return taking_part_; }
  int place() const { return place_; }
  /// The member at a place.
  int member(int place) const { return place < folded_ ? 2 * place + 1 : place + folded_; }
  /// Whether the member at this place has a neighbour folded into it, which is the member before it.
  bool has_folded(int place) const { return place >= 0 && place < folded_; }

 private:
  int taking_part_;
  int folded_;
  int place_;
};

class DoublingRun {
 public:
  DoublingRun(const Call& call, Mesh& mesh, Deadline deadline)
      : packing_(call),
        partials_(call, packing_),
        chunks_(Chunks::of(call, packing_.element_bytes())),
        team_(call, mesh, deadline),
        places_(team_.size(), team_.index()),
        load_(packing_.cursor()),
        unpack_(packing_.cursor()),
        own_(longest() * partials_.element_bytes()),
        incoming_(longest() * partials_.element_bytes()),
        result_(longest() * packing_.element_bytes()) {}

  Status run() {
    RUEDA_RETURN_IF_ERROR(connect());
    for (int64_t chunk = 0; chunk < chunks_.number(); ++chunk) {
      length_ = chunks_.length_of(chunk);
      partials_.load(load_, length_, own_.at(0));
      RUEDA_RETURN_IF_ERROR(places_.place() < 0 ? hand_over() : take_part());
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
    if (places_.place() < 0) return team_.connect(team_.index() + 1);
    if (places_.has_folded(places_.place())) RUEDA_RETURN_IF_ERROR(team_.connect(team_.index() - 1));
    for (int distance = 1; distance < places_.taking_part(); distance *= 2) {
      RUEDA_RETURN_IF_ERROR(team_.connect(places_.member(places_.place() ^ distance)));
    }
    return {};
  }

  /// A member that is folded into the one after it.
  Status hand_over() {
    const int partner = team_.index() + 1;
    team_.peer(partner).send(partial(own_));
    team_.peer(partner).receive(result());
    return until_idle(partner);
  }

  Status take_part() {
    const bool has_folded = places_.has_folded(places_.place());
    if (has_folded) {
      team_.peer(team_.index() - 1).receive(partial(incoming_));
      RUEDA_RETURN_IF_ERROR(until_idle(team_.index() - 1));
      partials_.combine(incoming_.at(0), own_.at(0), own_.at(0), length_);
    }
    for (int distance = 1; distance < places_.taking_part(); distance *= 2) {
      const int place = places_.place() ^ distance;
      const int partner = places_.member(place);
      team_.peer(partner).send(partial(own_));
      team_.peer(partner).receive(partial(incoming_));
      RUEDA_RETURN_IF_ERROR(until_idle(partner));
      const bool partner_first = place < places_.place();
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
  Places places_;
  SliceCursor load_, unpack_;
  Scratch own_, incoming_, result_;
  int64_t length_ = 0;  // elements of the chunk at hand
};

}  // namespace

bool doubling_fits(const BatchShape& shape) { return shape.device < 0 && shape.ranks > 1; }

AlgorithmChoice doubling_plan(const BatchShape& shape) { return plan_chunks(wire_bytes(shape), kDoublingChunkBytes); }

Status doubling(const Call& call, Mesh& mesh, Deadline deadline) {
  if (!partials_serve(call)) return direct(call, mesh, deadline);
  return DoublingRun(call, mesh, deadline).run();
}

}  // namespace rueda::core
