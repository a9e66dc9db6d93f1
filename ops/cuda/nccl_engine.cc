// Launches batches by NCCL, in one stream for each GPU, in the order in which all ranks launch them.
//
//   work stream   behind the marks of the inputs ─▶ NCCL's kernel ─▶ mark of the batch
//
// Before a set's first batch its members tell each other what they have, through the host: NCCL's version, their GPU,
// and member 0's id of a communicator. Each judges the same list, so all decide alike, and no member waits in NCCL for
// one that goes another way.
#include "ops/cuda/nccl_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "ops/cuda/device_functions.h"
#include "ops/cuda/nccl_batch.h"
#include "runtime/base/log.h"
#include "runtime/engine/device_marks.h"

namespace rueda::cuda {
namespace {

using core::Call;
using core::Code;
using core::EngineCall;

/// How long kernels may take to end after an abort has come back.
constexpr std::chrono::seconds kMostForKernels{1};
/// From this version on a variable of NCCL's own allows ranks to share a GPU.
constexpr int kSharedGpuNccl = 23000;

enum class Has : uint32_t { kNccl = 1, kNone = 2, kOff = 3 };

}  // namespace

/// What a member tells the others before a set uses NCCL.
struct Told {
  Has has;
  uint32_t required;
  int32_t version;
  uint32_t may_share;
  std::array<char, 16> gpu;
  NcclId id;       ///< of member 0
  NcclId host_id;  ///< of the first member on each host
};
static_assert(sizeof(Told) <= EngineCall::kTold);

namespace {

bool is_set(const char* name, const char* value) {
  const char* const text = std::getenv(name);
  return text != nullptr && (value == nullptr || std::strcmp(text, value) == 0);
}

/// Before NCCL knew a variable for it, a host's name of one's own for each process went past its check.
bool may_share_gpu(int version) {
  return is_set("NCCL_HOSTID", nullptr) || (version >= kSharedGpuNccl && is_set("NCCL_MULTI_RANK_GPU_ENABLE", "1"));
}

std::vector<Told> read_all(std::span<const std::byte> all) {
  std::vector<Told> members(all.size() / EngineCall::kTold);
  for (size_t i = 0; i < members.size(); ++i) {
    std::memcpy(&members[i], all.data() + i * EngineCall::kTold, sizeof(Told));
  }
  return members;
}

/// Why the members cannot use NCCL together; empty if they can. The same on all of them.
std::string judge(const std::vector<Told>& members, const std::vector<int>& ranks) {
  const Told& first = members.front();
  for (size_t i = 0; i < members.size(); ++i) {
    const Told& member = members[i];
    if (member.has == Has::kOff) return fmt::format("rank {} has RUEDA_NCCL=0", ranks[i]);
    if (member.has != Has::kNccl) return fmt::format("rank {} has no NCCL that can be used", ranks[i]);
    if (member.version != first.version) {
      return fmt::format("rank {} has NCCL {}, and rank {} has {}", ranks[0], nccl_version_text(first.version),
                         ranks[i], nccl_version_text(member.version));
    }
    for (size_t k = 0; k < i; ++k) {
      const Told& other = members[k];
      if (other.gpu == member.gpu && (other.may_share == 0 || member.may_share == 0)) {
        return fmt::format("ranks {} and {} use the same GPU, which NCCL refuses", ranks[k], ranks[i]);
      }
    }
  }
  return {};
}

Status draw_id(const Nccl& nccl, NcclId& id) {
  const NcclResult result = nccl.get_unique_id(&id);
  if (result == NcclResult::kSuccess) return {};
  return {Code::kSystem, fmt::format("ncclGetUniqueId: {}", nccl.error_text(result))};
}

}  // namespace

int32_t NcclEngine::kind() const { return kCudaDevice; }

/// A sum in deterministic mode is the host's business: NCCL adds in an order of its own. So are codecs.
bool NcclEngine::serves(const core::BatchShape& shape) const {
  if (shape.kind == core::OpKind::kBarrier) return false;
  if (!core::reduces(shape.kind)) return true;
  return !shape.deterministic && shape.codec == core::CodecId::kNone && nccl_reduces(shape.dtype, shape.op);
}

Result<bool> NcclEngine::run(const Call& call, EngineCall& host) {
  if (idle()) communicators_.end_forgotten();
  const Result<Device*> device = devices_.of(call.device->index);
  if (!device.ok()) return device.status();
  Result<bool> usable = ready(call, *device.value(), host);
  if (!usable.ok() || !usable.value()) return usable;
  const Result<WorkStream*> work = stream_of(*device.value());
  if (!work.ok()) return work.status();
  const CUstream stream = work.value()->stream;
  NcclBatch batch(call, stream, communicators_, host);
  if (!batch.can_run()) return false;
  RUEDA_RETURN_IF_ERROR(order(call, stream));
  const bool by_host = call.kind == core::OpKind::kAllreduce && two_levels(*call.team);
  const Status launched = by_host
                              ? HierarchicalBatch(call, *nccl_sum_of(call), stream, communicators_, pinned_, host).run()
                              : batch.launch();
  const auto mark =
      core::make_mark(*call.device->functions, call.device->index, stream);  // also behind what a failure left
  if (mark.ok()) call.device->finished = work.value()->last = mark.value();
  RUEDA_RETURN_IF_ERROR(launched);
  RUEDA_RETURN_IF_ERROR(mark.status());
  return true;
}

/// What this rank tells the others. `usable` becomes why it has no NCCL, if it has none.
Told NcclEngine::introduce(const core::Team& team, const Device& device, Status& usable) {
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
  if (usable.ok() && two_levels(team) && HostPlace::of(team).index == 0) usable = draw_id(*nccl.value(), own.host_id);
  if (!usable.ok()) return own;
  own.has = Has::kNccl;
  own.version = nccl.value()->version;
  own.may_share = may_share_gpu(own.version) ? 1 : 0;
  return own;
}

/// Whether the set uses NCCL. At its first batch the members find out, and make the communicators.
Result<bool> NcclEngine::ready(const Call& call, const Device& device, EngineCall& host) {
  const core::SetId set = call.device->set;
  if (const auto known = uses_.find(set); known != uses_.end()) return known->second;
  const core::Team& team = *call.team;
  std::vector<std::byte> all(static_cast<size_t>(team.size()) * EngineCall::kTold);
  Status usable;
  const Told own = introduce(team, device, usable);
  std::memcpy(all.data() + static_cast<size_t>(team.index) * EngineCall::kTold, &own, sizeof own);
  RUEDA_RETURN_IF_ERROR(host.tell_all(all));
  const std::vector<Told> members = read_all(all);
  const std::string why = judge(members, team.ranks);
  if (!why.empty()) {
    uses_[set] = false;
    RUEDA_RETURN_IF_ERROR(refuse(members, team.ranks, why, usable));
    return false;
  }
  RUEDA_RETURN_IF_ERROR(
      communicators_.make({set, Reach::kSet}, device, team.size(), team.index, members.front().id, host));
  if (two_levels(team)) {
    const HostPlace place = HostPlace::of(team);
    const NcclId& id = members[static_cast<size_t>(place.first)].host_id;
    RUEDA_RETURN_IF_ERROR(communicators_.make({set, Reach::kHost}, device, place.size, place.index, id, host));
  }
  uses_[set] = true;
  return true;
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

/// RUEDA_HIERARCHICAL_ALLREDUCE=1 asks for them.
bool NcclEngine::two_levels(const core::Team& team) const {
  return settings_.hierarchical == core::Choice::kForce && HostPlace::of(team).several;
}

/// Ranks that share a process have streams of their own: in one stream a kernel would wait for another behind it.
Result<NcclEngine::WorkStream*> NcclEngine::stream_of(Device& device) {
  if (const auto known = streams_.find(&device); known != streams_.end()) return &known->second;
  const Result<CUstream> taken = device.take_stream();
  if (!taken.ok()) return taken.status();
  return &streams_.emplace(&device, WorkStream{taken.value(), nullptr}).first->second;
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
  for (const auto& [device, work] : streams_) {
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
