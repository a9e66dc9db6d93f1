// Before a set's first batch its members tell each other what they have, through the host: NCCL's version, their GPU,
// kernels, and member 0's id of a communicator. Each judges the same list, so all decide alike, and no member waits in
// NCCL for one that goes another way.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "ops/cuda/levels.h"
#include "ops/cuda/nccl_engine.h"
#include "runtime/base/log.h"

namespace rueda::cuda {
namespace {

using core::Call;
using core::EngineCall;
using Has = Told::Has;

Status draw_id(const Nccl& nccl, NcclId& id) {
  const NcclResult result = nccl.get_unique_id(&id);
  if (result == NcclResult::kSuccess) return {};
  return {Code::kSystem, fmt::format("ncclGetUniqueId: {}", nccl.error_text(result))};
}

std::string why_lost(int32_t gpu) {
  return fmt::format(
      "in an earlier job of this process NCCL has not come back from a call on GPU {}, and is not used on "
      "it any more; a new process can use it",
      gpu);
}

}  // namespace

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
  if (usable.ok() && device.nccl_lost()) usable = {Code::kUnsupported, why_lost(call.device->index)};
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
  own.registers = nccl.value()->registers() ? 1 : 0;
  own.process = own_process();
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
  use.registers = use.packs && registrar_.may_try(members, team.ranks);
  return uses_[set] = use;
}

Status NcclEngine::make_communicators(const Call& call, const Use& use, std::span<const Told> members,
                                      EngineCall& host) {
  const core::SetId set = call.device->set;
  const core::Team& team = *call.team;
  RUEDA_RETURN_IF_ERROR(communicators_.make({set, Reach::kSet}, *use.device, processes_of(members, team.ranks),
                                            team.index, members.front().id, host));
  if (!use.two_levels) return {};
  devices_.host().log(static_cast<int32_t>(core::LogLevel::kInfo), describe_levels(team).c_str());
  const HostPlace place = HostPlace::of(team);
  const auto first = static_cast<size_t>(place.first);
  const auto size = static_cast<size_t>(place.size);
  std::vector<MemberProcess> here =
      processes_of(members.subspan(first, size), std::span(team.ranks).subspan(first, size));
  return communicators_.make({set, Reach::kHost}, *use.device, std::move(here), place.index, members[first].host_id,
                             host);
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

}  // namespace rueda::cuda
