#pragma once

namespace rueda::test {

/// How long memory is short: for one allocation, or for all behind it as well.
enum class Shortage { kOnce, kLasting };

/// While it lives, the allocations of its thread by `new` succeed so many times, and the next one throws
/// std::bad_alloc. Other threads have memory. One at a time on a thread, and on that thread only. A program has it by
/// linking rueda_test_scarce_memory, which replaces its operator new.
class ScarceMemory {
 public:
  explicit ScarceMemory(int allocations, Shortage shortage = Shortage::kLasting);
  ~ScarceMemory();
  ScarceMemory(const ScarceMemory&) = delete;
  ScarceMemory& operator=(const ScarceMemory&) = delete;
  /// Whether an allocation has failed.
  bool was_short() const;
};

}  // namespace rueda::test
