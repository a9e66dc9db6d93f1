#pragma once
#include <cstddef>
#include <new>

namespace rueda::core {

/// Memory for objects of one size that come and go at the rate of small operations. The allocator of the C library
/// joins such blocks with their neighbours and cuts them off again, which costs a tenth of such an operation.
///
/// A thread that has taken a block keeps at most 1,024 of those that it gives back, for its next `take`, and frees them
/// when it ends. All have the size of its first one; blocks of another size, and those that a thread gives which took
/// none, go to `operator delete`. A block may be given by another thread than the one that took it. Sanitizers see more
/// without this, so builds for them hand each call on to `operator new` and `operator delete`. Any thread.
class SpareBlocks {
 public:
  /// Throws std::bad_alloc if there is no memory.
  static void* take(size_t bytes);
  /// Needs no memory.
  static void give(void* block, size_t bytes) noexcept;
};

/// Gives `std::allocate_shared<Object>` such blocks.
template <typename Object>
class SpareBlockAllocator {
 public:
  using value_type = Object;
  SpareBlockAllocator() = default;
  template <typename Other>
  SpareBlockAllocator(const SpareBlockAllocator<Other>&) noexcept {}  // NOLINT(google-explicit-constructor)
  Object* allocate(size_t count) {
    static_assert(alignof(Object) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    return static_cast<Object*>(SpareBlocks::take(count * sizeof(Object)));
  }
  void deallocate(Object* block, size_t count) noexcept { SpareBlocks::give(block, count * sizeof(Object)); }
  friend bool operator==(const SpareBlockAllocator&, const SpareBlockAllocator&) { return true; }
};

}  // namespace rueda::core
