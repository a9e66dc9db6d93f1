// NCCL's functions, as ops/cuda/nccl_abi.h declares them, and the test's side. Inside a group an operation is noted,
// and the end of the group launches what was noted, as one kernel for each communicator.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/base/half.h"
#include "tests/support/cuda/nccl_communicator.h"

using rueda::cuda::NcclComm;
using rueda::cuda::NcclConfig;
using rueda::cuda::NcclId;
using rueda::cuda::NcclOp;
using rueda::cuda::NcclResult;
using rueda::cuda::NcclType;
using rueda::test::Inside;
using rueda::test::NcclOperation;
using rueda::test::NcclState;
using rueda::test::standin_driver;
using rueda::test::StandinCommunicator;

namespace {

using Kind = NcclOperation::Kind;

struct Noted {
  NcclComm communicator;
  CUstream stream;
  NcclOperation operation;
};
thread_local int depth = 0;
thread_local std::vector<Noted> noted;
thread_local std::vector<std::unique_ptr<Inside>> inside_group;
thread_local std::vector<NcclComm> aborting;

StandinCommunicator& of(NcclComm handle) { return *reinterpret_cast<StandinCommunicator*>(handle); }

void count(int rueda::test::NcclCounts::*which, int by = 1) {
  const std::lock_guard lock(NcclState::one().mutex);
  NcclState::one().counts.*which += by;
}

std::byte* real(const void* memory) { return static_cast<std::byte*>(standin_driver().in_kernel(memory)); }

/// All are told to stop before any is waited for: one's kernel may lie behind another's. One that a thread is inside of
/// is left alive; a later abort, when no thread is inside of it, ends it.
void abort_all(const std::vector<NcclComm>& all) {
  static auto* const left = new std::vector<NcclComm>;
  std::vector<NcclComm> unused;
  for (const NcclComm handle : all) {
    of(handle).aborting.store(true);
    if (of(handle).inside.load() == 0) {
      unused.push_back(handle);
      continue;
    }
    const std::lock_guard lock(NcclState::one().mutex);
    ++NcclState::one().counts.misuses;
    left->push_back(handle);
  }
  NcclState::one().pass("ncclCommAbort");
  for (const NcclComm handle : all) of(handle).stop();
  for (const NcclComm handle : unused) delete &of(handle);
  const std::lock_guard lock(NcclState::one().mutex);
  auto& counts = NcclState::one().counts;
  counts.aborts += static_cast<int>(all.size());
  counts.alive -= static_cast<int>(unused.size());
  counts.most_in_abort = std::max(counts.most_in_abort, static_cast<int>(all.size()));
}

/// Operations of one communicator leave together.
NcclResult launch_noted() {
  const std::vector<Noted> all = std::exchange(noted, {});
  std::vector<NcclComm> communicators;
  for (const Noted& each : all) {
    if (std::find(communicators.begin(), communicators.end(), each.communicator) == communicators.end()) {
      communicators.push_back(each.communicator);
    }
  }
  NcclResult result = NcclResult::kSuccess;
  for (const NcclComm handle : communicators) {
    const Inside inside(of(handle));
    std::vector<NcclOperation> group;
    CUstream stream = nullptr;
    for (const Noted& each : all) {
      if (each.communicator != handle) continue;
      group.push_back(each.operation);
      stream = each.stream;
    }
    result = of(handle).launch(std::move(group), stream);
  }
  if (!communicators.empty()) count(&rueda::test::NcclCounts::groups);
  return result;
}

NcclResult operate(const char* function, NcclComm handle, CUstream stream, NcclOperation operation) {
  if (const NcclResult failed = NcclState::one().begin(function); failed != NcclResult::kSuccess) return failed;
  const Inside inside(of(handle));
  if (depth > 0) inside_group.push_back(std::make_unique<Inside>(of(handle)));
  if (!of(handle).may_begin()) return NcclResult::kInvalidUsage;
  count(&rueda::test::NcclCounts::operations);
  if (operation.kind == Kind::kAllGather) count(&rueda::test::NcclCounts::gathers);
  const auto own = of(handle).scaled_sums.find(static_cast<int>(operation.op));
  if (own != of(handle).scaled_sums.end()) {
    operation.scale = own->second;
    operation.op = NcclOp::kSum;
  }
  operation.registered = of(handle).covers(operation.in) && of(handle).covers(operation.out);
  noted.push_back({handle, stream, operation});
  return depth > 0 ? NcclResult::kSuccess : launch_noted();
}

/// Empty for a type that the stand-in does not scale.
std::optional<double> scalar(NcclType type, const void* from) {
  if (type == NcclType::kF64) return *static_cast<const double*>(from);
  if (type == NcclType::kF32) return static_cast<double>(*static_cast<const float*>(from));
  if (type == NcclType::kF16) return rueda::core::f16_to_f32({*static_cast<const uint16_t*>(from)});
  if (type == NcclType::kBf16) return rueda::core::bf16_to_f32({*static_cast<const uint16_t*>(from)});
  return {};
}

class NcclControl : public rueda::test::StandinNccl {
 public:
  rueda::test::NcclCounts counts() override {
    const std::lock_guard lock(state_.mutex);
    return state_.counts;
  }
  void fail(const std::string& function, int after, NcclResult result) override {
    const std::lock_guard lock(state_.mutex);
    state_.failures[function] = {after, result};
  }
  void hang(const std::string& function) override {
    const std::lock_guard lock(state_.mutex);
    state_.hanging = function;
  }
  void heal() override {
    const std::lock_guard lock(state_.mutex);
    state_.failures.clear();
    state_.hanging.clear();
    state_.changed.notify_all();
  }

 private:
  NcclState& state_ = NcclState::one();
};

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): NCCL's own names
extern "C" {
#pragma GCC visibility push(default)

rueda::test::StandinNccl* rueda_standin_nccl() {
  static auto* const one = new NcclControl;
  return one;
}

NcclResult ncclGetVersion(int* version) {
  const char* text = std::getenv("STANDIN_NCCL_VERSION");
  *version = text == nullptr ? 22809 : std::atoi(text);
  return NcclResult::kSuccess;
}
const char* ncclGetErrorString(NcclResult) { return "an error of the stand-in"; }
const char* ncclGetLastError(NcclComm handle) {
  if (handle == nullptr) return "the stand-in was told to fail";
  const Inside inside(of(handle));
  return "the stand-in was told to fail";
}
NcclResult ncclGetUniqueId(NcclId* id) {
  count(&rueda::test::NcclCounts::ids);
  *id = rueda::test::make_board();
  return NcclState::one().begin("ncclGetUniqueId");
}
NcclResult ncclCommInitRankConfig(NcclComm* handle, int ranks, NcclId id, int rank, NcclConfig* config) {
  if (const NcclResult failed = NcclState::one().begin("ncclCommInitRankConfig"); failed != NcclResult::kSuccess) {
    return failed;
  }
  const bool known = config->size == sizeof(NcclConfig) && config->magic == 0xcafebeef && config->blocking == 0;
  if (!known || ranks > rueda::test::kMostNcclRanks) return NcclResult::kInvalidArgument;
  *handle = reinterpret_cast<NcclComm>(new StandinCommunicator(id, ranks, rank, standin_driver().current_device()));
  count(&rueda::test::NcclCounts::made);
  count(&rueda::test::NcclCounts::alive);
  return NcclResult::kInProgress;
}
NcclResult ncclCommGetAsyncError(NcclComm handle, NcclResult* state) {
  const Inside inside(of(handle));
  *state = of(handle).state();
  return NcclResult::kSuccess;
}
NcclResult ncclCommFinalize(NcclComm handle) {
  if (const NcclResult failed = NcclState::one().begin("ncclCommFinalize"); failed != NcclResult::kSuccess)
    return failed;
  count(&rueda::test::NcclCounts::finalizing);
  const Inside inside(of(handle));
  NcclState::one().pass("ncclCommFinalize");
  return of(handle).finalize();
}
NcclResult ncclCommDestroy(NcclComm handle) {
  if (const NcclResult failed = NcclState::one().begin("ncclCommDestroy"); failed != NcclResult::kSuccess)
    return failed;
  {
    const Inside inside(of(handle));
    if (!of(handle).finalized() || of(handle).state() == NcclResult::kInProgress) {
      count(&rueda::test::NcclCounts::misuses);
      return NcclResult::kInvalidUsage;
    }
  }
  delete &of(handle);
  count(&rueda::test::NcclCounts::alive, -1);
  return NcclResult::kSuccess;
}
NcclResult ncclCommAbort(NcclComm handle) {
  if (const NcclResult failed = NcclState::one().begin("ncclCommAbort"); failed != NcclResult::kSuccess) return failed;
  aborting.push_back(handle);
  if (depth == 0) abort_all(std::exchange(aborting, {}));
  return NcclResult::kSuccess;
}
NcclResult ncclGroupStart() {
  ++depth;
  return NcclResult::kSuccess;
}
NcclResult ncclGroupEnd() {
  if (--depth > 0) return NcclResult::kSuccess;
  if (!aborting.empty()) abort_all(std::exchange(aborting, {}));
  if (!noted.empty()) NcclState::one().pass("ncclGroupEnd");
  const NcclResult failed = NcclState::one().begin("ncclGroupEnd");
  if (failed != NcclResult::kSuccess) noted.clear();
  const NcclResult result = failed != NcclResult::kSuccess ? failed : launch_noted();
  inside_group.clear();
  return result;
}
NcclResult ncclAllReduce(const void* in, void* out, size_t elements, NcclType type, NcclOp op, NcclComm handle,
                         CUstream stream) {
  return operate("ncclAllReduce", handle, stream, {Kind::kAllReduce, real(in), real(out), elements, type, op});
}
NcclResult ncclReduce(const void* in, void* out, size_t elements, NcclType type, NcclOp op, int root, NcclComm handle,
                      CUstream stream) {
  return operate("ncclReduce", handle, stream, {Kind::kReduce, real(in), real(out), elements, type, op, 1.0, root});
}
NcclResult ncclBroadcast(const void* in, void* out, size_t elements, NcclType type, int root, NcclComm handle,
                         CUstream stream) {
  return operate("ncclBroadcast", handle, stream,
                 {Kind::kBroadcast, real(in), real(out), elements, type, NcclOp::kSum, 1.0, root});
}
NcclResult ncclAllGather(const void* in, void* out, size_t elements, NcclType type, NcclComm handle, CUstream stream) {
  return operate("ncclAllGather", handle, stream, {Kind::kAllGather, real(in), real(out), elements, type});
}
NcclResult ncclReduceScatter(const void* in, void* out, size_t elements, NcclType type, NcclOp op, NcclComm handle,
                             CUstream stream) {
  return operate("ncclReduceScatter", handle, stream, {Kind::kReduceScatter, real(in), real(out), elements, type, op});
}
NcclResult ncclSend(const void* in, size_t elements, NcclType type, int peer, NcclComm handle, CUstream stream) {
  return operate("ncclSend", handle, stream, {Kind::kSend, real(in), nullptr, elements, type, NcclOp::kSum, 1.0, peer});
}
NcclResult ncclRecv(void* out, size_t elements, NcclType type, int peer, NcclComm handle, CUstream stream) {
  return operate("ncclRecv", handle, stream,
                 {Kind::kReceive, nullptr, real(out), elements, type, NcclOp::kSum, 1.0, peer});
}
NcclResult ncclRedOpCreatePreMulSum(NcclOp* op, void* factor, NcclType type, int, NcclComm handle) {
  const std::optional<double> by = scalar(type, factor);
  if (!by) return NcclResult::kInvalidArgument;
  const Inside inside(of(handle));
  const int number = of(handle).next_operator++;
  of(handle).scaled_sums[number] = *by;
  *op = static_cast<NcclOp>(number);
  count(&rueda::test::NcclCounts::operators);
  return NcclResult::kSuccess;
}
NcclResult ncclRedOpDestroy(NcclOp op, NcclComm handle) {
  if (const NcclResult failed = NcclState::one().begin("ncclRedOpDestroy"); failed != NcclResult::kSuccess)
    return failed;
  const Inside inside(of(handle));
  of(handle).scaled_sums.erase(static_cast<int>(op));
  count(&rueda::test::NcclCounts::operators, -1);
  return NcclResult::kSuccess;
}

#pragma GCC visibility pop
}
// NOLINTEND(readability-identifier-naming)
