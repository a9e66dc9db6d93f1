#pragma once
#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>

/// NCCL's C interface, as far as Rueda calls it. It is written down here and not taken from nccl.h, so that the build
/// needs no NCCL and one binary serves every version from `kLeastNccl` on. NCCL keeps its promises between versions by
/// two fields: a configuration says its own size and the version that it was written for, and a newer library fills in
/// the rest.
namespace rueda::cuda {

/// 2.14 brought communicators that do not block, which are the only ones that may be aborted at any time.
inline constexpr int kLeastNccl = 21400;

/// Opaque: a communicator.
struct NcclCommunicator;
using NcclComm = NcclCommunicator*;

enum class NcclResult : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7
};

/// Whether a call has gone well so far: what does not block may still be in progress.
inline bool begun(NcclResult result) { return result == NcclResult::kSuccess || result == NcclResult::kInProgress; }

enum class NcclType : int {
  kI8 = 0,
  kU8 = 1,
  kI32 = 2,
  kU32 = 3,
  kI64 = 4,
  kU64 = 5,
  kF16 = 6,
  kF32 = 7,
  kF64 = 8,
  kBf16 = 9
};

/// An operator of the library's own, or the number of one that a communicator has made.
enum class NcclOp : int { kSum = 0, kProduct = 1, kMax = 2, kMin = 3 };

/// The scalar of an operator lies in the host's memory and is read before the call returns.
inline constexpr int kNcclScalarOnHost = 1;

/// What ranks meet by.
struct NcclId {
  std::array<char, 128> bytes;
};

/// ncclConfig_t of 2.14.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  uint32_t magic = 0xcafebeef;
  uint32_t version = static_cast<uint32_t>(kLeastNccl);
  int blocking = 0;
};
static_assert(sizeof(NcclConfig) == 24);

/// The functions, by their types.
namespace nccl_type {
using GetVersion = NcclResult(int* version);
using GetUniqueId = NcclResult(NcclId* id);
using GetErrorString = const char*(NcclResult result);
using GetLastError = const char*(NcclComm communicator);
using CommInitRankConfig = NcclResult(NcclComm* communicator, int ranks, NcclId id, int rank, NcclConfig* config);
using CommGetAsyncError = NcclResult(NcclComm communicator, NcclResult* state);
using CommEnd = NcclResult(NcclComm communicator);  ///< finalize, destroy, abort
using Group = NcclResult();
using AllReduce = NcclResult(const void* in, void* out, size_t count, NcclType type, NcclOp op, NcclComm communicator,
                             CUstream stream);
using Reduce = NcclResult(const void* in, void* out, size_t count, NcclType type, NcclOp op, int root,
                          NcclComm communicator, CUstream stream);
using Broadcast = NcclResult(const void* in, void* out, size_t count, NcclType type, int root, NcclComm communicator,
                             CUstream stream);
using AllGather = NcclResult(const void* in, void* out, size_t count, NcclType type, NcclComm communicator,
                             CUstream stream);
/// `count` is what each rank gets.
using ReduceScatter = NcclResult(const void* in, void* out, size_t count, NcclType type, NcclOp op,
                                 NcclComm communicator, CUstream stream);
using Send = NcclResult(const void* in, size_t count, NcclType type, int peer, NcclComm communicator, CUstream stream);
using Receive = NcclResult(void* out, size_t count, NcclType type, int peer, NcclComm communicator, CUstream stream);
using RedOpCreatePreMulSum = NcclResult(NcclOp* op, void* scalar, NcclType type, int residence, NcclComm communicator);
using RedOpDestroy = NcclResult(NcclOp op, NcclComm communicator);
/// Of 2.19, as the next.
using MemAlloc = NcclResult(void** memory, size_t bytes);
using MemFree = NcclResult(void* memory);
/// The handle may be null after a success: then NCCL was told to register nothing.
using CommRegister = NcclResult(NcclComm communicator, void* memory, size_t bytes, void** handle);
using CommDeregister = NcclResult(NcclComm communicator, void* handle);
}  // namespace nccl_type

}  // namespace rueda::cuda
