// For sanitizers: ASan forbids the use of a freed block and keeps its memory from being given out again soon, so that a
// use of what has gone is seen.
#include "runtime/base/spare_blocks.h"

namespace rueda::core {

void* SpareBlocks::take(size_t bytes) { return ::operator new(bytes); }

void SpareBlocks::give(void* block, size_t) noexcept { ::operator delete(block); }

}  // namespace rueda::core
