// Launches batches by NCCL, in one stream for each GPU, in the order in which all ranks launch them.
//
//   work stream   behind the marks of the inputs ─▶ (gather) ─▶ NCCL's kernel ─▶ (scatter) ─▶ mark of the batch
//
// Before a set's first batch its members tell each other what they have, through the host: NCCL's version, their GPU,
// kernels, and member 0's id of a communicator. Each judges the same list, so all decide alike, and no member waits in
// NCCL for one that goes another way.
#include "ops/cuda/nccl_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "ops/cuda/device_functions.h"
#include "ops/cuda/folded_batch.h"
#include "ops/cuda/levels.h"
#include "ops/cuda/lone_rank.h"
#include "runtime/base/log.h"
#include "runtime/engine/device_marks.h"

namespace rueda::cuda {
namespace {

using core::Call;
using core::Code;
using core::EngineCall;
using Has = Told::Has;

/// How long kernels may take to end after an abort has come back.
constexpr std::chrono::seconds kMostForKernels{1};
/// From how many bytes on two levels are chosen by themselves, as for tensors in host memory.
constexpr size_t kTwoLevelBytes = 64 << 10;

/// Whether results follow from the order in which elements are added up; integers' sums are exact.
bool sums_may_differ(core::Dtype dtype) { return core::is_float(core::part_of(dtype)); }

Status draw_id(const Nccl& nccl, NcclId& id) {
  const NcclResult result = nccl.get_unique_id(&id);
  if (result == NcclResult::kSuccess) return {};
  return {Code::kSystem, fmt::format("ncclGetUniqueId: {}", nccl.error_text(result))};
}

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
    RUEDA_RETURN_IF_ERROR(work.buffer.make(functions_, work.index, work.stream));
  }
  RUEDA_RETURN_IF_ERROR(order(call, work.stream));
  Status launched;
  if (by_host) {
    launched = HierarchicalBatch(call, *nccl_sum_of(call), work.stream, communicators_, pinned_, host).run();
  } else if (fold) {
    const Kernels& kernels = *use.device->kernels().value();
    launched = FoldedBatch(call, *fold, kernels, work.stream, work.buffer, communicators_, host).launch();
  } else if (plan) {
    const Kernels& kernels = *use.device->kernels().value();
    launched = PackedBatch(call, *plan, kernels, work.stream, work.buffer, communicators_, host).launch();
  } else {
    launched = batch.launch();
  }
  return leave_mark(call, work, launched);
}

/// Whether this rank can pack. Kernels are loaded here, before there is a communicator of the set, because that may
/// wait for the GPU. A rank without says why, and takes part without packing, as then all do.
bool NcclEngine::packs(Device& device) const {
  const Status usable = device.kernels().status();
  if (usable.ok()) return true;
  devices_.host().log(static_cast<int32_t>(core::LogLevel::kInfo),
                      fmt::format("tensors on GPUs are not packed: {}", usable.sentence()).c_str());
  return false;
}

/// What this rank tells the others. `usable` becomes why it has no NCCL, if it has none.
Told NcclEngine::introduce(const Call& call, Device& device, Status& usable) {
  const core::Team& team = *call.team;
  Told own{};
  own.required = settings_.use == core::Choice::kForce ? 1 : 0;
  own.has = Has::kOff;
  if (settings_.use == core::Choice::kForbid) return own;
  own.has = Has::kNone;
  const Result<const Nccl*> nccl = devices_.nccl();
  usable = nccl.status();
  if (usable.ok()) usable = communicators_.begin(*nccl.value());
  if (usable.ok()) usable = device.uuid(own.gpu);
  if (usable.ok() && team.index == 0) usable = draw_id(*nccl.value(), own.id);
  if (usable.ok() && may_take_two_levels(settings_.hierarchical, team) && HostPlace::of(team).index == 0)
    usable = draw_id(*nccl.value(), own.host_id);
  if (!usable.ok()) return own;
  own.has = Has::kNccl;
  own.version = nccl.value()->version;
  own.may_share = may_share_gpu(own.version) ? 1 : 0;
  own.own_network = has_own_network() ? 1 : 0;
  own.packs = packs(device) ? 1 : 0;
  return own;
}

/// What the set uses, which its members find out at its first batch.
Result<NcclEngine::Use> NcclEngine::ready(const Call& call, EngineCall& host) {
  const auto known = uses_.find(call.device->set);
  return known != uses_.end() ? Result<Use>(known->second) : meet(call, host);
}

/// The members tell each other what they have, and make the communicators. One that has joined before has no GPU to
/// tell of; then the batch goes through the host, and the next one decides.
Result<NcclEngine::Use> NcclEngine::meet(const Call& call, EngineCall& host) {
  const core::SetId set = call.device->set;
  const core::Team& team = *call.team;
  const bool has_joined = call.device->functions->kind != kind();
  Use use;
  if (!has_joined) {
    const Result<Device*> device = devices_.of(call.device->index);
    if (!device.ok()) return device.status();
    use.device = device.value();
  }
  std::vector<std::byte> all(static_cast<size_t>(team.size()) * EngineCall::kTold);
  Status usable;
  Told own{};
  own.has = Has::kJoined;
  if (!has_joined) own = introduce(call, *use.device, usable);
  std::memcpy(all.data() + static_cast<size_t>(team.index) * EngineCall::kTold, &own, sizeof own);
  RUEDA_RETURN_IF_ERROR(host.tell_all(all));
  const std::vector<Told> members = read_told(all);
  if (std::ranges::any_of(members, [](const Told& each) { return each.has == Has::kJoined; })) return Use{};
  const std::string why = why_not_together(members, team.ranks);
  if (!why.empty()) {
    uses_[set] = {};
    RUEDA_RETURN_IF_ERROR(refuse(members, team.ranks, why, usable));
    return Use{};
  }
  use.nccl = true;
  use.two_levels = take_two_levels(settings_.hierarchical, team, members);
  RUEDA_RETURN_IF_ERROR(make_communicators(call, use, members, host));
  use.packs = std::ranges::all_of(members, [](const Told& each) { return each.packs != 0; });
  return uses_[set] = use;
}

Status NcclEngine::make_communicators(const Call& call, const Use& use, std::span<const Told> members,
                                      EngineCall& host) {
  const core::SetId set = call.device->set;
  const core::Team& team = *call.team;
  RUEDA_RETURN_IF_ERROR(
      communicators_.make({set, Reach::kSet}, *use.device, team.size(), team.index, members.front().id, host));
  if (!use.two_levels) return {};
  devices_.host().log(static_cast<int32_t>(core::LogLevel::kInfo), describe_levels(team).c_str());
  const HostPlace place = HostPlace::of(team);
  const NcclId& id = members[static_cast<size_t>(place.first)].host_id;
  return communicators_.make({set, Reach::kHost}, *use.device, place.size, place.index, id, host);
}

/// Says once for a set why it does without NCCL. A rank whose own NCCL is the reason says what is wrong with it.
Status NcclEngine::refuse(std::span<const Told> members, const std::vector<int>& ranks, const std::string& why,
                          const Status& own) const {
  const std::string detail = own.ok() ? why : fmt::format("{} (here: {})", why, own.sentence());
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i].required == 0) continue;
    return {Code::kUnsupported, fmt::format("rank {} requires NCCL (RUEDA_NCCL=1), but {}", ranks[i], detail)};
  }
  const bool none = std::ranges::none_of(members, [](const Told& each) { return each.has == Has::kNccl; });
  const auto level = none ? core::LogLevel::kInfo : core::LogLevel::kWarning;
  devices_.host().log(static_cast<int32_t>(level),
                      fmt::format("tensors on GPUs go through the host, without NCCL: {}", detail).c_str());
  return {};
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
/// have ended.
void NcclEngine::close() {
  bool empty = communicators_.close();
  const auto limit = std::chrono::steady_clock::now() + kMostForKernels;
  while (empty && !idle() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  empty = empty && idle();
  for (auto& [device, work] : streams_) {
    empty ? work.buffer.free() : work.buffer.leave();
    if (empty) device->give_stream(work.stream);
  }
  streams_.clear();
  empty ? pinned_.free() : pinned_.leave();
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
