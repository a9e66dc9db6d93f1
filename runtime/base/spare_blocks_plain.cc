// For sanitizers: what a block held is gone with it, and its memory comes back late.
#include "runtime/base/spare_blocks.h"

namespace rueda::core {

void* SpareBlocks::take(size_t bytes) { return ::operator new(bytes); }

void SpareBlocks::give(void* block, size_t) noexcept { ::operator delete(block); }

}  // namespace rueda::core
