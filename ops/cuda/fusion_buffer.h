#pragma once
#include <array>
#include <memory>
#include <span>

#include "ops/cuda/nccl_memory.h"
#include "ops/cuda/pack_tiles.h"
#include "runtime/base/plugin_abi.h"
#include "runtime/engine/device_engine.h"
#include "runtime/engine/device_marks.h"

namespace rueda::cuda {

/// What one stream packs batches with: a buffer on the GPU, a table of pieces behind it, and pinned memory from which
/// tables are copied there. The stream orders all uses of the buffer and of the table on the GPU; a pinned table stays
/// as it is until its copy has run. Made at the first batch of a set, and kept to the end of the epoch. Owned by the
/// device lane.
class FusionBuffer {
 public:
  /// Bytes that are packed at once. All ranks have as many: it decides how a batch is cut. A fused batch fits in,
  /// unless its elements are widened; a group may not.
  static constexpr int64_t kBytes = 32 << 20;
  static constexpr size_t kMostPieces = 4096;

  explicit FusionBuffer(const rueda_host& host) : host_(host) {}
  FusionBuffer(const FusionBuffer&) = delete;
  FusionBuffer& operator=(const FusionBuffer&) = delete;

  /// Allocates all of it at the first call, the buffer from `nccl` if that gives memory. Returns kSystem if there is
  /// none.
  core::Status make(const core::DeviceFunctions& functions, int32_t index, void* stream, const NcclMemory& nccl = {});
  std::byte* memory() const { return memory_; }
  /// Lets the parameters lead to these pieces: in themselves if there is room, else in the table on the GPU, which the
  /// stream holds from here on. Waits if all pinned tables are in use. Fails as `EngineCall::until`, or with kSystem if
  /// the GPU does.
  core::Status put(std::span<const PackPiece> pieces, PackParameters& parameters, core::EngineCall& host);
  /// Gives everything back once nothing in the stream uses it.
  void free();
  /// Leaves it to the process, because something in the stream may still use it.
  void leave();

 private:
  static constexpr size_t kTables = 4;
  static constexpr size_t kTableBytes = kMostPieces * sizeof(PackPiece);
  static constexpr size_t kDeviceBytes = static_cast<size_t>(kBytes) + kTableBytes;
  struct PinnedTable {
    PackPiece* pieces = nullptr;
    std::shared_ptr<const core::DeviceMark> copied;  ///< behind the copy of what it holds
  };
  void allocate();
  core::Status await(const PinnedTable& table, core::EngineCall& host);

  const rueda_host& host_;
  const core::DeviceFunctions* functions_ = nullptr;
  int32_t index_ = 0;
  void* stream_ = nullptr;
  NcclMemory nccl_;
  std::byte* memory_ = nullptr;
  bool by_nccl_ = false;  ///< the memory is NCCL's
  std::array<PinnedTable, kTables> tables_{};
  size_t next_ = 0;
};

}  // namespace rueda::cuda
