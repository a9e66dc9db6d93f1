// Host memory as a device: there are no streams, so every mark is 0, which stands for "passed", and a copy has happened
// when the call returns.
#include "runtime/engine/device.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace rueda::core {
namespace {

constexpr size_t kAlignment = 64;  // a cache line
constexpr size_t kPinnedAlignment = 4096;

void host_why(void*, char* text, size_t capacity) { std::snprintf(text, capacity, "no memory"); }
int32_t describe(void*, char* text, size_t capacity) {
  std::snprintf(text, capacity, "memory of the host");
  return 0;
}
int32_t mark(void*, int32_t, void*, uint64_t* token) {
  *token = 0;
  return 0;
}
int32_t order(void*, int32_t, uint64_t, void*) { return 0; }
int32_t passed(void*, uint64_t) { return 1; }
int32_t notify(void*, uint64_t, MarkAsker, void (*call)(void*), void* argument) {
  call(argument);
  return 0;
}
void drop(void*, uint64_t) {}
int32_t shareable(void*, void*) { return 1; }
/// Any address: what goes through it has happened.
void* no_stream(void* /*context*/, int32_t /*index*/, EngineStream /*which*/) {
  static char stream = 0;
  return &stream;
}
int32_t copy(void*, int32_t, void* to, const void* from, size_t bytes, void*) {
  std::memcpy(to, from, bytes);
  return 0;
}
void* aligned(size_t bytes, size_t alignment) {
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment + alignment);
}
void* allocate(void*, int32_t, size_t bytes, void*) { return aligned(bytes, kAlignment); }
void release(void*, int32_t, void* memory, void*) { std::free(memory); }
void* allocate_pages(void*, int32_t, size_t bytes) { return aligned(bytes, kPinnedAlignment); }
void release_pages(void*, int32_t, void* memory, size_t) { std::free(memory); }

}  // namespace

const DeviceFunctions& cpu_device() {
  static const DeviceFunctions functions{sizeof(DeviceFunctions),
                                         "cpu",
                                         nullptr,
                                         0,
                                         host_why,
                                         describe,
                                         mark,
                                         order,
                                         passed,
                                         notify,
                                         drop,
                                         shareable,
                                         no_stream,
                                         copy,
                                         allocate,
                                         release,
                                         allocate_pages,
                                         release_pages};
  return functions;
}

}  // namespace rueda::core
