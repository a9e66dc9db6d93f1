#pragma once
#include <string>

#include "ops/cuda/nccl_abi.h"

namespace rueda::test {

/// What a process has asked of the stand-in for NCCL. Sums over all communicators.
struct NcclCounts {
  int made = 0;           ///< communicators whose making was begun
  int alive = 0;          ///< of them, neither destroyed nor aborted
  int operations = 0;     ///< all-reduces, sends, ...
  int gathers = 0;        ///< of them, ncclAllGather
  int groups = 0;         ///< ncclGroupEnd that launched something
  int aborts = 0;         ///< communicators that were aborted
  int most_in_abort = 0;  ///< most communicators that one group has aborted
  int misuses = 0;        ///< calls that NCCL forbids: while one is in progress, while an abort runs, after the end
  int ids = 0;            ///< ncclGetUniqueId
  int operators = 0;      ///< made and not destroyed
  int failures = 0;       ///< calls that `fail` has let fail
  int registrations = 0;  ///< of memory, ever
  int registered = 0;     ///< of them, neither undone nor ended by an abort
  int mixed = 0;          ///< kernels that found registered memory on one rank and other memory on another
  int memory = 0;         ///< pieces of ncclMemAlloc that were not freed
  int finalizing = 0;     ///< ncclCommFinalize, begun
  int held = 0;           ///< calls that `hang` holds now
};

/// The test's side of a libnccl.so.2 that needs no GPU. It works on memory and streams of the stand-in for the driver,
/// whose library it finds by RUEDA_CUDA_LIBRARY, between threads and processes of one kernel, up to 8 ranks.
/// Variables, read at the first call:
///
///   STANDIN_NCCL_VERSION      what ncclGetVersion says (22809)
///   STANDIN_NCCL_PROGRESS_US  the longest time for which a call is in progress, before its work is in the stream (0)
///   STANDIN_NCCL_SEED         decides those times (1)
///   STANDIN_NCCL_FOLDER       where its shared memory lies, for ranks that do not see each other's /proc
///   STANDIN_NCCL_SHARED_GPU   1: ranks may share a GPU; else their communicator is refused, as NCCL does
///   STANDIN_NCCL_REFUSE_REGISTER  1: it registers no memory; 2: it says that it has, and gives no handle
///   STANDIN_NCCL_END_TOGETHER 1: a communicator is in progress from ncclCommFinalize on until all its ranks are there
///   CUDA_LAUNCH_BLOCKING      1: a call is in progress until its kernel has ended
///
/// A communicator with registered memory is not finalized, and NCCL's memory is not freed while it is registered. If
/// one rank's memory is registered in a message and the other's is not, both ranks' communicators fail. Once the driver
/// has ended, each call fails and is a line on stderr.
///
/// A kernel ends when all its ranks have taken part, or when its communicator is aborted; then its output is garbage.
/// An abort waits for the kernels that were launched, as NCCL's does. Any thread.
class StandinNccl {
 public:
  virtual ~StandinNccl() = default;
  virtual NcclCounts counts() = 0;
  /// From its `after`-th call from now on the function returns `result`. The name "state" means what
  /// ncclCommGetAsyncError says of a communicator.
  virtual void fail(const std::string& function, int after, cuda::NcclResult result) = 0;
  /// ncclCommAbort, ncclCommFinalize or the ncclGroupEnd of operations does not return, or no communicator comes to be,
  /// until `heal`.
  virtual void hang(const std::string& function) = 0;
  /// Ends `fail` and `hang`.
  virtual void heal() = 0;
};

}  // namespace rueda::test

/// The stand-in's own function, beside NCCL's.
extern "C" rueda::test::StandinNccl* rueda_standin_nccl();
