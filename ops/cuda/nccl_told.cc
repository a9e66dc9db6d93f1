// What members of a set know of each other before they use NCCL, and what follows from it.
#include "ops/cuda/nccl_told.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "ops/cuda/nccl_library.h"

namespace rueda::cuda {
namespace {

using core::EngineCall;
using Has = Told::Has;

/// From this version on a variable of NCCL's own allows ranks to share a GPU.
constexpr int kSharedGpuNccl = 23000;

bool is_set(const char* name, const char* value) {
  const char* const text = std::getenv(name);
  return text != nullptr && (value == nullptr || std::strcmp(text, value) == 0);
}

}  // namespace

std::vector<Told> read_told(std::span<const std::byte> all) {
  std::vector<Told> members(all.size() / EngineCall::kTold);
  for (size_t i = 0; i < members.size(); ++i) {
    std::memcpy(&members[i], all.data() + i * EngineCall::kTold, sizeof(Told));
  }
  return members;
}

std::string why_not_together(std::span<const Told> members, const std::vector<int>& ranks) {
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

std::vector<MemberProcess> processes_of(std::span<const Told> members, std::span<const int> ranks) {
  std::vector<MemberProcess> processes;
  for (size_t i = 0; i < members.size(); ++i) processes.push_back({ranks[i], members[i].process});
  return processes;
}

/// NCCL itself looks at the same variables and cards, but tells of its choice in its log only.
bool has_own_network() {
  if (is_set("NCCL_NET", nullptr)) return !is_set("NCCL_NET", "Socket");
  if (is_set("NCCL_NET_PLUGIN", nullptr) && !is_set("NCCL_NET_PLUGIN", "none")) return true;
  if (is_set("NCCL_IB_DISABLE", "1")) return false;
  std::error_code none;
  return std::filesystem::directory_iterator("/sys/class/infiniband", none) != std::filesystem::directory_iterator();
}

/// Before NCCL knew a variable for it, a host's name of one's own for each process went past its check.
bool may_share_gpu(int version) {
  return is_set("NCCL_HOSTID", nullptr) || (version >= kSharedGpuNccl && is_set("NCCL_MULTI_RANK_GPU_ENABLE", "1"));
}

}  // namespace rueda::cuda
