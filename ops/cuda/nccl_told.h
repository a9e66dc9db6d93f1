#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ops/cuda/member_processes.h"
#include "ops/cuda/nccl_abi.h"
#include "runtime/engine/device_engine.h"

namespace rueda::cuda {

/// What a member tells the others before a set uses NCCL.
struct Told {
  enum class Has : uint32_t { kNccl = 1, kNone = 2, kOff = 3, kJoined = 4 };
  Has has;
  uint32_t required;
  int32_t version;
  uint32_t may_share;
  uint32_t packs;        ///< 1: it has kernels, and a buffer
  uint32_t own_network;  ///< 1: between hosts its NCCL need not use TCP
  uint32_t registers;    ///< 1: its NCCL has the functions to register memory
  ProcessMark process;
  std::array<char, 16> gpu;
  NcclId id;       ///< of member 0
  NcclId host_id;  ///< of the first member on each host
};
static_assert(sizeof(Told) <= core::EngineCall::kTold);

/// Returns what the members have told, each in `EngineCall::kTold` bytes of `all`.
std::vector<Told> read_told(std::span<const std::byte> all);

/// Returns why the members, of these ranks, cannot use NCCL together; empty if they can. The same on all of them.
std::string why_not_together(std::span<const Told> members, const std::vector<int>& ranks);

/// Returns the processes of members of these ranks.
std::vector<MemberProcess> processes_of(std::span<const Told> members, std::span<const int> ranks);

/// Returns whether NCCL finds a network between hosts that is not TCP: an InfiniBand or RoCE card, or what NCCL_NET or
/// NCCL_NET_PLUGIN names.
bool has_own_network();

/// Returns whether this process lets NCCL of the version put two ranks on its GPU.
bool may_share_gpu(int version);

}  // namespace rueda::cuda
