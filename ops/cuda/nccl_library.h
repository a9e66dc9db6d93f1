#pragma once
#include <string>

#include "ops/cuda/nccl_abi.h"
#include "runtime/base/status.h"

namespace rueda::cuda {

/// The functions of NCCL that the plug-in calls, found at run time. Immutable; any thread.
struct Nccl {
  nccl_type::GetVersion* get_version;
  nccl_type::GetUniqueId* get_unique_id;
  nccl_type::GetErrorString* error_text;
  nccl_type::GetLastError* last_error;
  nccl_type::CommInitRankConfig* init;
  nccl_type::CommGetAsyncError* state;
  nccl_type::CommEnd* finalize;
  nccl_type::CommEnd* destroy;
  nccl_type::CommEnd* abort;
  nccl_type::Group* group_start;
  nccl_type::Group* group_end;
  nccl_type::AllReduce* all_reduce;
  nccl_type::Reduce* reduce;
  nccl_type::Broadcast* broadcast;
  nccl_type::AllGather* all_gather;
  nccl_type::ReduceScatter* reduce_scatter;
  nccl_type::Send* send;
  nccl_type::Receive* receive;
  nccl_type::RedOpCreatePreMulSum* create_scaled_sum;
  nccl_type::RedOpDestroy* destroy_op;
  // Null before 2.19.
  nccl_type::MemAlloc* allocate;
  nccl_type::MemFree* free;
  nccl_type::CommRegister* register_memory;
  nccl_type::CommDeregister* deregister_memory;

  std::string path;  ///< where the library lies
  int version = 0;   ///< 22809 of 2.28.9
  bool gives_memory() const { return allocate != nullptr && free != nullptr; }
  bool registers() const { return register_memory != nullptr && deregister_memory != nullptr; }
};

/// Opens NCCL: the library at `named` (RUEDA_NCCL_LIBRARY) if that is not empty, else one that the process has loaded,
/// else the one that pip has installed beside the plug-in (nvidia/nccl/lib), else what the dynamic linker finds. A
/// library that is found stays open. Returns kUnsupported if there is none or it is too old; the sentence says what to
/// do. Calls nothing but ncclGetVersion.
core::Result<Nccl> open_nccl(const std::string& named);

/// Returns the line of `hvdrun --check-build` about NCCL: version and path, or why there is none.
std::string describe_nccl(const std::string& named);

/// `2.28.9`, of the number that the library gives.
std::string nccl_version_text(int version);

}  // namespace rueda::cuda
