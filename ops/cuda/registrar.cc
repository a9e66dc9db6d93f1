// Registration is a call of each rank's own, and may fail on one of them: for lack of memory, or because of what the
// rank's environment says. So members first compare whether they have the functions, then each tries, and then they
// tell each other how it went. Nothing of NCCL's uses the memory before that.
#include "ops/cuda/registrar.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/engine/device_marks.h"

namespace rueda::cuda {
namespace {

/// What a member tells of its registration, in a byte.
enum class Registered : uint8_t { kYes = 1, kNo = 2 };

}  // namespace

bool Registrar::may_try(std::span<const Told> members, std::span<const int> ranks) {
  if (members.size() < 2) return false;
  const auto without = std::ranges::find(members, 0u, &Told::registers);
  if (without == members.end()) return true;
  const auto rank = ranks[static_cast<size_t>(without - members.begin())];
  tell(fmt::format("NCCL of rank {} has no ncclCommRegister, which came with 2.19", rank));
  return false;
}

Status Registrar::register_for_all(const core::Call& call, std::byte* memory, size_t bytes, core::EngineCall& host) {
  const core::Team& team = *call.team;
  const CommunicatorKey key{call.device->set, Reach::kSet};
  Status own = communicators_.register_memory(key, memory, bytes, host);
  if (!own.ok() && own.code() != Code::kUnsupported) return own;
  std::vector<Registered> all(static_cast<size_t>(team.size()));
  all[static_cast<size_t>(team.index)] = own.ok() ? Registered::kYes : Registered::kNo;
  RUEDA_RETURN_IF_ERROR(host.tell_all(std::as_writable_bytes(std::span(all))));
  const auto refused = std::ranges::find(all, Registered::kNo);
  if (refused == all.end()) {
    tell("");
    return {};
  }
  const int rank = team.ranks[static_cast<size_t>(refused - all.begin())];
  tell(fmt::format("NCCL of rank {} refuses it{}", rank, own.ok() ? "" : fmt::format(" (here: {})", own.sentence())));
  return communicators_.deregister_memory(key);
}

/// Once: most sets of a job fare alike.
void Registrar::tell(const std::string& why_not) {
  if (std::exchange(told_, true)) return;
  const std::string what = why_not.empty() ? "is registered with NCCL" : "is not registered with NCCL: " + why_not;
  host_.log(static_cast<int32_t>(core::LogLevel::kInfo),
            fmt::format("the buffer that tensors on GPUs are packed in {} (told once)", what).c_str());
}

}  // namespace rueda::cuda
