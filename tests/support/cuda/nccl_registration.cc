// NCCL's functions for memory, which came with 2.19: the library of an older one is built without this file.
#include <algorithm>
#include <cstdlib>

#include "tests/support/cuda/nccl_communicator.h"

using rueda::cuda::NcclComm;
using rueda::cuda::NcclResult;
using rueda::test::Inside;
using rueda::test::NcclState;
using rueda::test::standin_driver;
using rueda::test::StandinCommunicator;

namespace {

StandinCommunicator& communicator_of(NcclComm handle) { return *reinterpret_cast<StandinCommunicator*>(handle); }

std::byte* kernels_address(const void* memory) { return static_cast<std::byte*>(standin_driver().in_kernel(memory)); }

int refusal() {
  const char* const text = std::getenv("STANDIN_NCCL_REFUSE_REGISTER");
  return text == nullptr ? 0 : std::atoi(text);
}

NcclResult misuse() {
  const std::lock_guard lock(NcclState::one().mutex);
  ++NcclState::one().counts.misuses;
  return NcclResult::kInvalidUsage;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): NCCL's own names
extern "C" {
#pragma GCC visibility push(default)

NcclResult ncclMemAlloc(void** memory, size_t bytes) {
  if (const NcclResult failed = NcclState::one().begin("ncclMemAlloc"); failed != NcclResult::kSuccess) return failed;
  if (standin_driver().current_device() < 0) return NcclResult::kUnhandledCudaError;
  *memory = standin_driver().allocate(bytes);
  const std::lock_guard lock(NcclState::one().mutex);
  ++NcclState::one().counts.memory;
  return NcclResult::kSuccess;
}
NcclResult ncclMemFree(void* memory) {
  if (const NcclResult failed = NcclState::one().begin("ncclMemFree"); failed != NcclResult::kSuccess) return failed;
  {
    const std::lock_guard lock(NcclState::one().mutex);
    --NcclState::one().counts.memory;
    const auto& registered = NcclState::one().registered;
    const bool is_in_use = std::find(registered.begin(), registered.end(), kernels_address(memory)) != registered.end();
    if (is_in_use) ++NcclState::one().counts.misuses;
  }
  standin_driver().release(memory);
  return NcclResult::kSuccess;
}
NcclResult ncclCommRegister(NcclComm handle, void* memory, size_t bytes, void** registration) {
  if (const NcclResult failed = NcclState::one().begin("ncclCommRegister"); failed != NcclResult::kSuccess) {
    return failed;
  }
  const Inside inside(communicator_of(handle));
  if (!communicator_of(handle).may_begin()) return NcclResult::kInvalidUsage;
  if (refusal() == 1) return NcclResult::kInvalidUsage;
  *registration = nullptr;
  if (refusal() == 0) {
    const uintptr_t number = communicator_of(handle).register_memory(kernels_address(memory), bytes);
    *registration = reinterpret_cast<void*>(number);
  }
  return NcclResult::kSuccess;
}
NcclResult ncclCommDeregister(NcclComm handle, void* registration) {
  if (const NcclResult failed = NcclState::one().begin("ncclCommDeregister"); failed != NcclResult::kSuccess) {
    return failed;
  }
  const Inside inside(communicator_of(handle));
  const bool known = communicator_of(handle).deregister_memory(reinterpret_cast<uintptr_t>(registration));
  return known ? NcclResult::kSuccess : misuse();
}

#pragma GCC visibility pop
}
// NOLINTEND(readability-identifier-naming)
