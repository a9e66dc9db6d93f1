// All-reduce and broadcast by a library's own collectives (MPI_Iallreduce, MPI_Ibcast), pipelined over chunks.
//
//   step s:   start  chunk s        pack ─▶ memory of slot s mod 3 ─▶ the library
//             finish chunk s-2      wait for the library ─▶ average, scale, round ─▶ unpack
//
//   slots     | s-2: comes back | s-1: travels | s: is packed |
//
// The library reduces partial sums in place and in its own order, so 16-bit types travel as fp32, and what a partial
// sum cannot carry runs `direct`. All ranks start the same collectives in the same order, which is why a batch of some
// ranks only cannot come here. Cost: as the library's algorithm, plus one pass to pack and one to unpack.
#include "ops/native.h"

#include <array>
#include <memory>

#include "ops/chunks.h"
#include "ops/cpu/broadcast_tree.h"
#include "ops/cpu/channel_team.h"
#include "ops/cpu/direct.h"
#include "ops/cpu/partials.h"
#include "ops/packing.h"
#include "runtime/net/collectives.h"

namespace rueda::core {

namespace {

/// Long enough for the library's algorithms for long messages, short enough to pack one while others travel.
constexpr uint32_t kNativeChunkBytes = 4u << 20;
constexpr int64_t kNativeInFlight = 3;

/// The collectives that serve the call. Null if the lane has none, or the call is not one of all ranks.
Collectives* collectives_for(const Call& call, Mesh& mesh) {
  if (!mesh.has_channels() || call.team->size() != mesh.size()) return nullptr;
  return mesh.channels().collectives();
}

/// One run. A chunk has memory of its own, because the library works on it in place while others are packed and
/// unpacked.
class NativeRun {
 public:
  NativeRun(const Call& call, Mesh& mesh, Deadline deadline, Collectives& collectives)
      : call_(call),
        mesh_(mesh),
        deadline_(deadline),
        collectives_(collectives),
        packing_(call),
        partials_(call, packing_),
        chunks_(Chunks::of(call, packing_.element_bytes())),
        pack_(packing_.cursor()),
        unpack_(packing_.cursor()) {
    const auto longest = static_cast<size_t>(std::min(chunks_.length, chunks_.count));
    if (reduces(call.kind)) result_ = std::make_unique<Scratch>(longest * packing_.element_bytes());
    const size_t bytes = longest * (reduces(call.kind) ? partials_.element_bytes() : packing_.element_bytes());
    for (int64_t i = 0; i < std::min(kNativeInFlight, chunks_.number()); ++i) {
      slots_[static_cast<size_t>(i)].memory = std::make_unique<Scratch>(bytes);
    }
  }

  Status run() {
    if (call_.count == 0) return {};  // on every rank alike: no rank starts a collective
    const int64_t number = chunks_.number();
    for (int64_t step = 0; step < number + kNativeInFlight - 1; ++step) {
      if (step < number) start(step);
      const int64_t back = step - (kNativeInFlight - 1);
      if (back >= 0 && back < number) RUEDA_RETURN_IF_ERROR(finish(back));
    }
    return {};
  }

 private:
  struct Slot {
    std::unique_ptr<Scratch> memory;
    uint64_t ticket = 0;
  };
  Slot& slot(int64_t chunk) { return slots_[static_cast<size_t>(chunk % kNativeInFlight)]; }

  /// The slot is free: chunk - 3 was finished in the step before.
  void start(int64_t chunk) {
    Slot& here = slot(chunk);
    const int64_t length = chunks_.length_of(chunk);
    if (reduces(call_.kind)) {
      partials_.load(pack_, length, here.memory->at(0));
      here.ticket = collectives_.allreduce(partials_.dtype(), partials_.op(), here.memory->at(0), length);
      return;
    }
    if (call_.team->index == call_.root) packing_.pack(pack_, length, here.memory->at(0), StoreHint::kPlain);
    const size_t bytes = static_cast<size_t>(length) * packing_.element_bytes();
    here.ticket =
        collectives_.broadcast(call_.team->ranks[static_cast<size_t>(call_.root)], here.memory->part(0, bytes));
  }

  Status finish(int64_t chunk) {
    Slot& here = slot(chunk);
    const int64_t length = chunks_.length_of(chunk);
    // Only the library knows which rank it waits for.
    mesh_.waits_for(Mesh::kOthers);
    {
      const PhaseScope moving(mesh_.phases(), WorkPhase::kTransfer);
      RUEDA_RETURN_IF_ERROR(mesh_.channels().until([&] { return collectives_.finished() >= here.ticket; }, deadline_));
    }
    mesh_.waits_for(Mesh::kNobody);
    std::byte* wire = here.memory->at(0);
    if (reduces(call_.kind)) {
      partials_.finish(wire, result_->at(0), length);
      wire = result_->at(0);
    }
    packing_.unpack(unpack_, length, wire);
    return {};
  }

  const Call& call_;
  Mesh& mesh_;
  Deadline deadline_;
  Collectives& collectives_;
  Packing packing_;
  Partials partials_;
  Chunks chunks_;
  SliceCursor pack_, unpack_;
  std::array<Slot, kNativeInFlight> slots_;
  std::unique_ptr<Scratch> result_;  // of a reduction: a chunk as it is unpacked
};

Status native_allreduce(const Call& call, Mesh& mesh, Deadline deadline) {
  Collectives* collectives = collectives_for(call, mesh);
  if (collectives == nullptr || !partials_serve(call)) return direct(call, mesh, deadline);
  return NativeRun(call, mesh, deadline, *collectives).run();
}

Status native_broadcast(const Call& call, Mesh& mesh, Deadline deadline) {
  Collectives* collectives = collectives_for(call, mesh);
  if (collectives == nullptr) return broadcast_tree(call, mesh, deadline);
  return NativeRun(call, mesh, deadline, *collectives).run();
}

bool native_fits(const BatchShape& shape) { return shape.device < 0 && shape.ranks > 1; }

AlgorithmChoice native_plan(const BatchShape& shape) { return plan_chunks(wire_bytes(shape), kNativeChunkBytes); }

constexpr std::array kNativeAlgorithms = {
    Algorithm{"native", OpKind::kAllreduce, false, native_fits, native_plan, native_allreduce, nullptr},
    Algorithm{"native", OpKind::kBroadcast, true, native_fits, native_plan, native_broadcast, nullptr},
};

}  // namespace

std::span<const Algorithm> native_algorithms() { return kNativeAlgorithms; }

}  // namespace rueda::core
