#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace rueda::core {

/// A sum that grows. A reader sees the value of some moment. Any thread may read it.
class Sum {
 public:
  /// Any thread, without a lock.
  void add(uint64_t amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
  void add(std::chrono::nanoseconds time) { add(count_of(time)); }
  /// The same for a sum whose writers exclude each other, without an instruction that locks memory.
  void add_alone(uint64_t amount) { set(value() + amount); }
  void add_alone(std::chrono::nanoseconds time) { add_alone(count_of(time)); }
  void set(uint64_t value) { value_.store(value, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }
  double seconds() const { return static_cast<double>(value()) * 1e-9; }

 private:
  static uint64_t count_of(std::chrono::nanoseconds time) {
    return static_cast<uint64_t>(time.count() > 0 ? time.count() : 0);
  }
  std::atomic<uint64_t> value_{0};
};

/// The greatest time that several threads have seen. Any thread.
class Greatest {
 public:
  void see(std::chrono::nanoseconds time) {
    int64_t known = value_.load(std::memory_order_relaxed);
    while (time.count() > known && !value_.compare_exchange_weak(known, time.count(), std::memory_order_relaxed)) {
    }
  }
  double seconds() const { return static_cast<double>(value_.load(std::memory_order_relaxed)) * 1e-9; }

 private:
  std::atomic<int64_t> value_{0};
};

/// What a rank has done since its epoch began. Any thread that has a part in an operation writes, as things happen, and
/// any thread reads. The sums marked (r) change with the flight record, under its mutex, by `add_alone`. Owned by the
/// engine's recorder.
struct Counters {
  static constexpr size_t kKinds = 32;  ///< room for more kinds of operation than there are
  static constexpr size_t kAlgorithms = 256;
  struct Kind {
    Sum tensors;
    Sum bytes;
  };
  struct Algorithm {
    Sum batches;
    Sum bytes;
    Sum time;
  };
  Sum submitted;                                  ///< tensors
  Sum finished;                                   ///< (r)
  Sum failed;                                     ///< (r)
  std::array<Kind, kKinds> kinds;                 ///< (r) finished, by OpKind
  std::array<Algorithm, kAlgorithms> algorithms;  ///< (r) by index in the table of algorithms
  Sum batches;                                    ///< (r)
  Sum batched;                                    ///< (r) tensors that were in a batch
  Sum negotiation;                                ///< (r) from enqueue to agreement, of all tensors
  Greatest longest_negotiation;
  Sum queue;       ///< (r) from agreement to start, of all batches
  Sum run;         ///< (r) from start to end, of all batches
  Sum waits;       ///< calls that waited
  Sum wait;        ///< time in these calls
  Sum cache_hits;  ///< proposals by id
  Sum cache_misses;
};

}  // namespace rueda::core
