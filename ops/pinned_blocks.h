#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/engine/device_marks.h"
#include "runtime/net/mesh.h"

namespace rueda::core {

/// Waits until the device has passed the mark: in the mesh, so that the end of the epoch wakes the lane, and with the
/// device ringing the lane's bell. The holder of the lane's token. Returns kSystem if the device fails, and the
/// failures of `Mesh::until`.
Status await_mark(const DeviceMark& mark, Mesh& mesh, Deadline deadline);

/// Memory of the host's that devices copy from and to by themselves, in blocks that are used again. Making one is slow
/// and may stop a device, so in the steady state none is made or freed. Owned by the data plane, used by the device
/// lane's thread.
class PinnedBlocks {
 public:
  /// One block. It is free again once `busy` has been passed, or if that is null.
  struct Block {
    std::byte* memory;
    size_t bytes;
    const DeviceFunctions* functions;
    int32_t index;
    std::shared_ptr<const DeviceMark> busy;
    bool taken;
  };
  PinnedBlocks() = default;
  /// Waits, within a second, for copies that still use a block; one that is used even then is left to the process.
  ~PinnedBlocks();
  PinnedBlocks(const PinnedBlocks&) = delete;
  PinnedBlocks& operator=(const PinnedBlocks&) = delete;

  /// Takes a block of at least `bytes`, and waits for one if three of its size are still being copied from. Returns
  /// kSystem if there is no memory.
  Result<Block*> take(const DeviceFunctions& functions, int32_t index, size_t bytes, Mesh& mesh, Deadline deadline);
  /// Gives it back; it is free once `busy` has been passed.
  static void give(Block& block, std::shared_ptr<const DeviceMark> busy);

 private:
  Result<Block*> find_free(const DeviceFunctions& functions, int32_t index, size_t bytes);
  void free_unused(size_t but);

  std::vector<std::unique_ptr<Block>> blocks_;
  size_t held_ = 0;
};

}  // namespace rueda::core
