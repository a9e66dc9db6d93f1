// All-reduce of a large batch on one host: reduce-scatter and all-gather through shared memory, pipelined over chunks.
//
//   2 ranks, chunk k        rank 0                                    rank 1
//   pack                    slice 1 ─▶ own input slot, posted         slice 0 ─▶ own input slot, posted
//   reduce, one step later  slice 0: own tensor + slot of 1           slice 1: slot of 0 + own tensor
//                           ─▶ own result slot and tensor, reduced    ─▶ own result slot and tensor, reduced
//   unpack, two later       slice 1 ◀─ result slot of 1, done         slice 0 ◀─ result slot of 0, done
//
//   step j:   pack chunk j | reduce own slice of chunk j-1 | unpack chunk j-2
//
// Each stage waits for what the peers did one step before, and they did it while this rank was in its other two stages;
// so with equal ranks no wait is long. Three chunks are in work at a time: with slots that fit the cache, data written
// in one step is read from there in the next. A tensor is read once and written once; (N-1)/N of it passes the own
// input slots.
#include "ops/cpu/shm_two_shot.h"

#include <vector>

#include "ops/chunks.h"
#include "ops/cpu/lane_view.h"
#include "ops/cpu/shm_slots.h"
#include "ops/packing.h"

namespace rueda::core {

namespace {

using Word = LaneView::Word;
using Area = LaneView::Area;

/// Tensors shorter than this on average are gathered before they are reduced: a kernel call for each costs more.
constexpr int64_t kShortTensorBytes = 4096;

/// Chunks are at most a slot, and short enough that a batch has several in flight.
constexpr uint64_t kSmallestChunkBytes = 64 << 10;
constexpr uint64_t kChunksInFlight = 4;
constexpr int64_t kLongBytes = 1 << 20;

/// One run of the algorithm.
class TwoShot {
 public:
  TwoShot(const Call& call, Mesh& mesh, Deadline deadline)
      : call_(call),
        mesh_(mesh),
        packing_(call),
        task_(packing_.task()),
        view_(call, mesh),
        chunks_(Chunks::of(call, packing_.element_bytes())),
        element_bytes_(packing_.element_bytes()),
        hint_(store_hint(call.choice.stores, mesh)),
        deadline_(deadline),
        own_in_place_((packing_.as_is() || packing_.rounds()) &&
                      call.count * static_cast<int64_t>(element_bytes_) >=
                          kShortTensorBytes * static_cast<int64_t>(call.slices.size())),
        packed_(packing_.cursor()),
        reduced_(packing_.cursor()),
        unpacked_(packing_.cursor()),
        inputs_(static_cast<size_t>(view_.size())) {
    if (!own_in_place_ || !packing_.rounds()) return;
    task_.held_as_f32 = HeldAsF32::kOwn;
    task_.own = view_.index();
  }

  Status run() {
    const int64_t number = chunks_.number();
    for (int64_t step = 0; step < number + 2; ++step) {
      if (step < number) RUEDA_RETURN_IF_ERROR(pack(step));
      if (step == 0) RUEDA_RETURN_IF_ERROR(meet());
      if (step >= 1 && step <= number) RUEDA_RETURN_IF_ERROR(reduce_own(step - 1));
      if (step >= 2) RUEDA_RETURN_IF_ERROR(unpack(step - 2));
    }
    return {};
  }

 private:
  ChunkCut cut_of(int64_t chunk) const {
    return ChunkCut(chunk, chunks_.length_of(chunk), element_bytes_, view_.size());
  }
  size_t bytes(int64_t count) const { return static_cast<size_t>(count) * element_bytes_; }

  Status meet();
  Status pack(int64_t chunk);
  Status reduce_own(int64_t chunk);
  Status unpack(int64_t chunk);
  void gather_inputs(int64_t chunk, int64_t begin);
  void reduce_in_place(std::byte* out, int64_t count);
  void reduce_gathered(int64_t chunk, ElementRange own);

  const Call& call_;
  Mesh& mesh_;
  Packing packing_;
  ReduceTask task_;
  LaneView view_;
  Chunks chunks_;
  size_t element_bytes_;
  StoreHint hint_;
  Deadline deadline_;
  bool own_in_place_;  ///< the own slice is reduced from and to the tensors, never copied
  SliceCursor packed_, reduced_, unpacked_;
  std::vector<const std::byte*> inputs_;
};

/// Measures how far the cores are apart, between the first two chunks. Long batches wait for all members here whether
/// they measure or not: 4 and 16 MiB with 2 ranks took 3 to 6 % longer without that.
Status TwoShot::meet() {
  const bool is_long = call_.count * static_cast<int64_t>(element_bytes_) >= kLongBytes;
  if (is_long || measures_distance(call_)) {
    RUEDA_RETURN_IF_ERROR(view_.wait_all(Word::kPosted, view_.value(0), deadline_));
  }
  learn_distance(call_, mesh_);
  hint_ = store_hint(call_.choice.stores, mesh_);
  return {};
}

/// Stores for peers go past the cache unless the cores are known to be near; the own slice, which only this rank reads
/// again, never does.
Status TwoShot::pack(int64_t chunk) {
  const int slot = view_.slot(chunk);
  RUEDA_RETURN_IF_ERROR(view_.wait_free(Area::kInput, slot, deadline_));
  const ElementRange own = cut_of(chunk).slice_of(view_.index());
  std::byte* const input = view_.input(view_.index(), chunk);
  packing_.pack(packed_, own.begin, input, hint_);
  if (own_in_place_) {
    packed_.skip(own.length());
  } else {
    packing_.pack(packed_, own.length(), input + bytes(own.begin), StoreHint::kPlain);
  }
  packing_.pack(packed_, chunks_.length_of(chunk) - own.end, input + bytes(own.end), hint_);
  view_.claim(Area::kInput, slot, view_.value(chunk));
  view_.publish(Word::kPosted, view_.value(chunk));
  return {};
}

/// Publishes even if this rank owns no slice: `reduced` also says that it no longer reads inputs.
Status TwoShot::reduce_own(int64_t chunk) {
  const ElementRange own = cut_of(chunk).slice_of(view_.index());
  reduced_.skip(own.begin);
  if (own.length() > 0) {
    const int slot = view_.slot(chunk);
    RUEDA_RETURN_IF_ERROR(view_.wait_free(Area::kResult, slot, deadline_));
    RUEDA_RETURN_IF_ERROR(view_.wait_all(Word::kPosted, view_.value(chunk), deadline_));
    gather_inputs(chunk, own.begin);
    if (own_in_place_) {
      reduce_in_place(view_.result(view_.index(), chunk) + bytes(own.begin), own.length());
    } else {
      reduce_gathered(chunk, own);
    }
    view_.claim(Area::kResult, slot, view_.value(chunk));
  }
  // The rest of the chunk is other members' to reduce.
  reduced_.skip(chunks_.length_of(chunk) - own.end);
  view_.publish(Word::kReduced, view_.value(chunk));
  return {};
}

void TwoShot::gather_inputs(int64_t chunk, int64_t begin) {
  for (int i = 0; i < view_.size(); ++i) inputs_[static_cast<size_t>(i)] = view_.input(i, chunk) + bytes(begin);
}

/// The own input is read from its tensor and the result goes to the result slot and the tensor in the same pass. With
/// fp16 or bf16 the kernel rounds both in its registers.
void TwoShot::reduce_in_place(std::byte* out, int64_t count) {
  const auto self = static_cast<size_t>(view_.index());
  const PhaseScope reducing(call_.phases, WorkPhase::kReduce);  // of all pieces together
  reduced_.take(count, [&](const std::byte* in, std::byte* tensor, int64_t length) {
    inputs_[self] = in;
    reduce(task_, inputs_, out, hint_, tensor, length);
    for (const std::byte*& input : inputs_) input += bytes(length);
    out += bytes(length);
  });
}

/// The own input lies encoded in the own input slot, in the slice that no peer reads. The result replaces it there and
/// goes on into the tensors while it is in the cache; peers get theirs from the result slot.
void TwoShot::reduce_gathered(int64_t chunk, ElementRange own) {
  std::byte* const result = view_.result(view_.index(), chunk) + bytes(own.begin);
  std::byte* const kept = view_.input(view_.index(), chunk) + bytes(own.begin);
  reduce(task_, inputs_, result, hint_, kept, own.length());
  packing_.unpack(reduced_, own.length(), kept);
}

Status TwoShot::unpack(int64_t chunk) {
  const ChunkCut cut = cut_of(chunk);
  // Each rank starts with the slice after its own, so that not all read the same one first.
  const int start = cut.index_of(view_.index()) + 1;
  for (int i = 0; i < cut.owners(); ++i) {
    const int slice = (start + i) % cut.owners();
    const int owner = cut.member(slice);
    if (owner == view_.index()) continue;
    RUEDA_RETURN_IF_ERROR(view_.wait(owner, Word::kReduced, view_.value(chunk), deadline_));
    const ElementRange range = cut.slice(slice);
    SliceCursor at = unpacked_;
    at.skip(range.begin);
    packing_.unpack(at, range.length(), view_.result(owner, chunk) + bytes(range.begin));
  }
  unpacked_.skip(chunks_.length_of(chunk));
  view_.publish(Word::kDone, view_.value(chunk));
  return {};
}

}  // namespace

bool shm_two_shot_fits(const BatchShape& shape) { return shm_fits(shape); }

/// A quarter of the batch in whole pages: four chunks in flight, each long enough to be worth a synchronisation.
AlgorithmChoice shm_two_shot_plan(const BatchShape& shape) {
  const uint64_t bytes = wire_bytes(shape);
  const uint64_t slot = shape.slot_bytes;
  const uint64_t share = (bytes / kChunksInFlight + 4095) / 4096 * 4096;
  return plan_chunks(bytes, static_cast<uint32_t>(std::min(std::max(share, kSmallestChunkBytes), slot)));
}

Status shm_two_shot(const Call& call, Mesh& mesh, Deadline deadline) {
  RUEDA_RETURN_IF_ERROR(check_slots(call, mesh));
  return TwoShot(call, mesh, deadline).run();
}

}  // namespace rueda::core
