// Launches batches by NCCL, in one stream for each GPU, in the order in which all ranks launch them.
//
//   work stream   behind the marks of the inputs ─▶ (gather) ─▶ NCCL's kernel ─▶ (scatter) ─▶ mark of the batch
//
// Before a set's first batch its members find out whether they can (nccl_meeting.cc).
#include "ops/cuda/nccl_engine.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>

#include "ops/cuda/device_functions.h"
#include "ops/cuda/folded_batch.h"
#include "ops/cuda/lone_rank.h"
#include "runtime/engine/device_marks.h"

namespace rueda::cuda {
namespace {

using core::Call;
using core::EngineCall;

/// How long kernels may take to end after an abort has come back.
constexpr std::chrono::seconds kMostForKernels{1};
/// From how many bytes on two levels are chosen by themselves, as for tensors in host memory.
constexpr size_t kTwoLevelBytes = 64 << 10;

/// Made while there is memory.
const Status kLaunchThrew(core::Code::kSystem, "an exception ended the launch of NCCL's kernels; memory may be out");

/// Whether results follow from the order in which elements are added up; integers' sums are exact.
bool sums_may_differ(core::Dtype dtype) { return core::is_float(core::part_of(dtype)); }

}  // namespace

int32_t NcclEngine::kind() const { return kCudaDevice; }

/// NCCL adds up floats in an order of its own, which deterministic mode does not allow: then only kernels of Rueda's
/// own may. Whether all members have kernels only they can tell.
bool NcclEngine::serves(const core::BatchShape& shape) const {
  if (shape.kind == core::OpKind::kBarrier) return false;
  if (!core::reduces(shape.kind)) return true;
  if (shape.deterministic && sums_may_differ(shape.dtype)) {
    return shape.kind == core::OpKind::kAllreduce && can_fold(shape.dtype, shape.op);
  }
  if (shape.kind == core::OpKind::kAllreduce && can_pack(shape.dtype, shape.op)) return true;
  return shape.absent == 0 && shape.codec == core::CodecId::kNone && nccl_reduces(shape.dtype, shape.op);
}

Result<bool> NcclEngine::run(const Call& call, EngineCall& host) {
  if (!sums_in_order(call) && changes_nothing(call)) return launch_alone(call);
  if (idle()) communicators_.end_forgotten();
  const Result<Use> use = ready(call, host);
  if (!use.ok()) return use.status();
  if (!use.value().nccl) return false;
  return launch(call, use.value(), host);
}

/// Deterministic mode wants the host's bits, down to those of NaNs.
bool NcclEngine::sums_in_order(const Call& call) const {
  return settings_.deterministic && core::reduces(call.kind) && sums_may_differ(call.dtype);
}

Result<bool> NcclEngine::launch_alone(const Call& call) {
  const Result<Device*> device = devices_.of(call.device->index);
  if (!device.ok()) return device.status();
  const Result<WorkStream*> found = stream_of(*device.value(), call.device->index);
  if (!found.ok()) return found.status();
  WorkStream& work = *found.value();
  RUEDA_RETURN_IF_ERROR(order(call, work.stream));
  return leave_mark(call, work, copy_to_outputs(call, work.stream));
}

/// Also behind what a failure left in the stream.
Result<bool> NcclEngine::leave_mark(const Call& call, WorkStream& work, const Status& launched) {
  const auto mark = core::make_mark(functions_, work.index, work.stream);
  if (mark.ok()) call.device->finished = work.last = mark.value();
  RUEDA_RETURN_IF_ERROR(launched);
  RUEDA_RETURN_IF_ERROR(mark.status());
  return true;
}

/// Returns false, on all members alike, if neither NCCL alone nor NCCL and kernels can run the batch. Only kernels make
/// up for tensors that a member does not bring.
Result<bool> NcclEngine::launch(const Call& call, Use use, EngineCall& host) {
  const Result<WorkStream*> found = stream_of(*use.device, call.device->index);
  if (!found.ok()) return found.status();
  WorkStream& work = *found.value();
  const bool is_allreduce = call.kind == core::OpKind::kAllreduce;
  const bool in_order = sums_in_order(call);
  const bool is_whole = call.device->tensors.empty();
  NcclBatch batch(call, work.stream, communicators_, host);
  const bool by_host = is_allreduce && !in_order && takes_two_levels(call, use, batch);
  const bool has_kernels = is_allreduce && use.packs && !by_host;
  const auto fold = has_kernels && in_order ? fold_plan_of(call) : std::nullopt;
  const auto plan = has_kernels && !in_order ? pack_plan_of(call) : std::nullopt;
  const bool by_nccl = !in_order && is_whole && batch.can_run();
  if (!fold && !plan && !by_nccl) return false;
  if (fold || (plan && goes_through_buffer(call, *plan))) {
    RUEDA_RETURN_IF_ERROR(prepare_buffer(call, use, work, host));
  }
  RUEDA_RETURN_IF_ERROR(order(call, work.stream));
  const auto launch_it = [&]() -> Status {
    if (by_host) {
      return HierarchicalBatch(call, *nccl_sum_of(call), work.stream, communicators_, work.pinned, host).run();
    }
    if (!fold && !plan) return batch.launch();
    const Kernels& kernels = *use.device->kernels().value();
    if (fold) return FoldedBatch(call, *fold, kernels, work.stream, work.buffer, communicators_, host).launch();
    return PackedBatch(call, *plan, kernels, work.stream, work.buffer, communicators_, host).launch();
  };
  Status launched;
  try {
    launched = launch_it();
  } catch (const std::exception&) {  // a part may be in the stream already
    launched = kLaunchThrew;
  }
  return leave_mark(call, work, launched);
}

/// Its first batch that needs the buffer registers it for a set: before, NCCL has not seen it.
Status NcclEngine::prepare_buffer(const Call& call, const Use& use, WorkStream& work, EngineCall& host) {
  const NcclMemory memory(*devices_.nccl().value(), *use.device);
  RUEDA_RETURN_IF_ERROR(work.buffer.make(functions_, work.index, work.stream, memory));
  if (!use.registers) return {};
  uses_.at(call.device->set).registers = false;
  return registrar_.register_for_all(call, work.buffer.memory(), static_cast<size_t>(FusionBuffer::kBytes), host);
}

/// What they cannot run goes through the host if they are forced, as it does there; else it takes one level.
bool NcclEngine::takes_two_levels(const Call& call, const Use& use, const NcclBatch& batch) const {
  if (!use.two_levels || settings_.hierarchical == core::Choice::kForce) return use.two_levels;
  const size_t bytes = static_cast<size_t>(call.count) * core::size_of(call.dtype);
  return call.device->tensors.empty() && batch.can_run() && bytes >= kTwoLevelBytes;
}

/// Ranks that share a process have streams of their own: in one stream a kernel would wait for another behind it.
Result<NcclEngine::WorkStream*> NcclEngine::stream_of(Device& device, int32_t index) {
  if (const auto known = streams_.find(&device); known != streams_.end()) return &known->second;
  const Result<CUstream> taken = device.take_stream();
  if (!taken.ok()) return taken.status();
  return &streams_.try_emplace(&device, taken.value(), index, devices_.host()).first->second;
}

/// A device that has failed counts as busy: nothing is known of its streams.
bool NcclEngine::idle() const {
  return std::ranges::all_of(streams_, [](const auto& each) {
    const auto& last = each.second.last;
    if (last == nullptr) return true;
    const Result<bool> passed = last->passed();
    return passed.ok() && passed.value();
  });
}

/// A stream that something may still be in goes with the process: NCCL may come back from an abort before its kernels
/// have ended. Once CUDA has ended, all goes with the process.
void NcclEngine::close() {
  bool empty = communicators_.close();
  if (!empty) {
    for (auto& [device, work] : streams_) device->lose_nccl();
  }
  empty = empty && std::ranges::none_of(streams_, [](const auto& each) { return each.first->cuda_has_ended(); });
  const auto limit = std::chrono::steady_clock::now() + kMostForKernels;
  while (empty && !idle() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  empty = empty && idle();
  for (auto& [device, work] : streams_) {
    empty ? work.buffer.free() : work.buffer.leave();
    empty ? work.pinned.free() : work.pinned.leave();
    if (empty) device->give_stream(work.stream);
  }
  streams_.clear();
}

/// The host does not wait for the inputs.
Status NcclEngine::order(const Call& call, CUstream stream) {
  const core::DeviceCall& device = *call.device;
  for (const uint64_t token : device.ready) {
    RUEDA_RETURN_IF_ERROR(core::order_after(*device.functions, device.index, token, stream));
  }
  for (const auto& mark : device.late) {
    RUEDA_RETURN_IF_ERROR(core::order_after(*device.functions, device.index, mark->token(), stream));
  }
  return {};
}

}  // namespace rueda::cuda
