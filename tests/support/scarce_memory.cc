// The operator new of a test program that can run out of memory. The other forms of new, those of arrays and those that
// return null, call this one.
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

}  // namespace rueda::test

void* operator new(size_t bytes) { return rueda::test::allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return rueda::test::allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
