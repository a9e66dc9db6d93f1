// Host memory as a device: there are no streams, so every mark is 0, which stands for "passed".
#include "runtime/engine/device.h"

#include <cstdlib>

namespace rueda::core {
namespace {

constexpr size_t kAlignment = 64;  // a cache line

int32_t mark(void*, int32_t, void*, uint64_t* token) {
  *token = 0;
  return 0;
}
int32_t order(void*, uint64_t, void*) { return 0; }
int32_t passed(void*, uint64_t) { return 1; }
void drop(void*, uint64_t) {}
void* allocate(void*, int32_t, size_t bytes, void*) {
  return std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment + kAlignment);
}
void release(void*, int32_t, void* memory) { std::free(memory); }

}  // namespace

const DeviceRow& cpu_device() {
  static const DeviceRow row{sizeof(DeviceRow), "cpu", nullptr, 0, mark, order, mark, passed, drop, allocate, release};
  return row;
}

}  // namespace rueda::core
