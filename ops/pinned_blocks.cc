// Blocks come in powers of two from 64 KiB up, so that batches of many lengths share a few. A block whose copy to the
// device is still under way is not waited for as long as there are fewer than three of its size: a staged batch works
// on two at a time.
#include "ops/pinned_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace rueda::core {
namespace {

constexpr size_t kLeastBytes = 64 << 10;
constexpr size_t kBlocksOfOneSize = 3;
/// More than this is given back before another block is made.
constexpr size_t kMostHeld = 64 << 20;
constexpr std::chrono::seconds kBlockLook{1};

}  // namespace

/// A failed device does not ring, so the wait looks again once a second.
Status await_mark(const DeviceMark& mark, Mesh& mesh, Deadline deadline) {
  const MarkNotice notice([&mesh] { ring_always(mesh.words(mesh.rank()).bell); });
  RUEDA_RETURN_IF_ERROR(notice.ask(mark, MarkAsker::kLane));
  Status failure;
  const auto ready = [&] {
    const Result<bool> passed = mark.passed();
    failure = passed.status();
    return !passed.ok() || passed.value();
  };
  for (;;) {
    Status waited = mesh.until(ready, deadline.earlier(Deadline::after(kBlockLook)));
    if (waited.ok()) return failure;
    if (waited.code() != Code::kTimeout || deadline.passed()) return waited;
  }
}

PinnedBlocks::~PinnedBlocks() {
  const Deadline patience = Deadline::after(kBlockLook);
  for (const auto& block : blocks_) {
    const auto in_use = [&] {
      if (block->busy == nullptr) return false;
      const Result<bool> passed = block->busy->passed();
      return passed.ok() && !passed.value();
    };
    Mutex mutex;
    Condition changed;
    const MarkNotice notice([&] {
      MutexLock lock(mutex);
      changed.notify_all();
    });
    if (in_use()) static_cast<void>(notice.ask(*block->busy, MarkAsker::kLane));
    while (in_use() && !patience.passed()) {
      MutexLock lock(mutex);
      if (in_use()) changed.wait_for(mutex, patience.left(kBlockLook));
    }
    if (!in_use()) block->functions->free_pinned(block->functions->context, block->index, block->memory, block->bytes);
  }
}

void PinnedBlocks::give(Block& block, std::shared_ptr<const DeviceMark> busy) {
  block.busy = std::move(busy);
  block.taken = false;
}

Result<PinnedBlocks::Block*> PinnedBlocks::find_free(const DeviceFunctions& functions, int32_t index, size_t bytes) {
  for (const auto& block : blocks_) {
    if (block->taken || block->functions != &functions || block->index != index || block->bytes != bytes) continue;
    if (block->busy != nullptr) {
      const Result<bool> passed = block->busy->passed();
      if (!passed.ok()) return passed.status();
      if (!passed.value()) continue;
    }
    block->busy.reset();
    return block.get();
  }
  return static_cast<Block*>(nullptr);
}

/// Frees blocks that nothing uses, other than those of `but` bytes, until little enough is held.
void PinnedBlocks::free_unused(size_t but) {
  std::erase_if(blocks_, [&](const auto& block) {
    if (held_ <= kMostHeld || block->taken || block->bytes == but) return false;
    if (block->busy != nullptr) {
      const Result<bool> passed = block->busy->passed();
      if (!passed.ok() || !passed.value()) return false;
    }
    block->functions->free_pinned(block->functions->context, block->index, block->memory, block->bytes);
    held_ -= block->bytes;
    return true;
  });
}

Result<PinnedBlocks::Block*> PinnedBlocks::take(const DeviceFunctions& functions, int32_t index, size_t bytes,
                                                Mesh& mesh, Deadline deadline) {
  const size_t size = std::bit_ceil(std::max(bytes, kLeastBytes));
  Result<Block*> found = find_free(functions, index, size);
  if (!found.ok()) return found;
  const auto is_alike = [&](const auto& block) {
    return block->functions == &functions && block->index == index && block->bytes == size;
  };
  const auto alike = std::ranges::count_if(blocks_, is_alike);
  const auto first = std::ranges::find_if(blocks_, [&](const auto& block) { return is_alike(block) && !block->taken; });
  if (found.value() == nullptr && alike >= static_cast<std::ptrdiff_t>(kBlocksOfOneSize) && first != blocks_.end()) {
    RUEDA_RETURN_IF_ERROR(await_mark(*(*first)->busy, mesh, deadline));
    found = first->get();
  }
  if (found.value() == nullptr) {
    free_unused(size);
    auto* const memory = static_cast<std::byte*>(functions.allocate_pinned(functions.context, index, size));
    if (memory == nullptr) return device_error(functions, index, fmt::format("give {} bytes of pinned memory", size));
    blocks_.push_back(std::make_unique<Block>(Block{memory, size, &functions, index, nullptr, false}));
    held_ += size;
    found = blocks_.back().get();
  }
  found.value()->taken = true;
  return found;
}

}  // namespace rueda::core
