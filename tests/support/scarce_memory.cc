// The operators new and delete of a test program that can run out of memory. All forms are here: those that stay of a
// sanitizer's own would not go with them.
#include "tests/support/scarce_memory.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace rueda::test {
namespace {

constexpr int kPlenty = -1;
thread_local int left = kPlenty;
thread_local bool refused = false;
thread_local Shortage how_long = Shortage::kLasting;

}  // namespace

ScarceMemory::ScarceMemory(int allocations, Shortage shortage) {
  refused = false;
  how_long = shortage;
  left = allocations;
}

ScarceMemory::~ScarceMemory() { left = kPlenty; }

bool ScarceMemory::was_short() const { return refused; }

void* allocate(size_t bytes, size_t alignment) {
  if (left == 0) {
    refused = true;
    if (how_long == Shortage::kOnce) left = kPlenty;
    throw std::bad_alloc();
  }
  if (left > 0) --left;
  const size_t whole = (std::max<size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  void* const memory = std::aligned_alloc(alignment, whole);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void* allocate_or_null(size_t bytes, size_t alignment) noexcept {
  try {
    return allocate(bytes, alignment);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace rueda::test

using rueda::test::allocate;
using rueda::test::allocate_or_null;
using std::align_val_t;
using std::nothrow_t;

constexpr size_t kUsual = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

void* operator new(size_t bytes) { return allocate(bytes, kUsual); }
void* operator new[](size_t bytes) { return allocate(bytes, kUsual); }
void* operator new(size_t bytes, align_val_t alignment) { return allocate(bytes, size_t(alignment)); }
void* operator new[](size_t bytes, align_val_t alignment) { return allocate(bytes, size_t(alignment)); }
void* operator new(size_t bytes, const nothrow_t&) noexcept { return allocate_or_null(bytes, kUsual); }
void* operator new[](size_t bytes, const nothrow_t&) noexcept { return allocate_or_null(bytes, kUsual); }
void* operator new(size_t bytes, align_val_t alignment, const nothrow_t&) noexcept {
  return allocate_or_null(bytes, size_t(alignment));
}
void* operator new[](size_t bytes, align_val_t alignment, const nothrow_t&) noexcept {
  return allocate_or_null(bytes, size_t(alignment));
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, const nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, align_val_t, const nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, align_val_t, const nothrow_t&) noexcept { std::free(memory); }
