#pragma once
#include <cstddef>
#include <new>
#include <utility>
#include <vector>

#include "rueda/session.hpp"

namespace rueda {

/// An allocator of memory that the other ranks of this host map, so that an all-reduce of what lies in it copies
/// nothing: see rueda_memory_allocate. Each allocation takes whole pages: make few and large containers. They may
/// outlive the session; another session does not share their memory. Any thread. allocate() throws rueda::Error beyond
/// RUEDA_SHARED_TENSOR_BYTES, or after the session was shut down.
template <typename T>
class SharedAllocator {
 public:
  using value_type = T;
  /// The session is used by allocate() only, and must be alive then.
  explicit SharedAllocator(const Session& session) : session_(session.c_session()) {}
  template <typename U>
  SharedAllocator(const SharedAllocator<U>& other) : session_(other.c_session()) {}  // NOLINT: allocators convert

  T* allocate(size_t count) {
    if (count > static_cast<size_t>(-1) / sizeof(T)) throw std::bad_array_new_length();
    rueda_memory memory{};
    memory.struct_size = sizeof memory;
    check(rueda_memory_allocate(session_, count * sizeof(T), &memory));
    return static_cast<T*>(memory.data);
  }
  void deallocate(T* data, size_t) { rueda_memory_free(data); }

  rueda_session* c_session() const { return session_; }
  /// Memory is freed by its address, whichever allocator it came from.
  template <typename U>
  bool operator==(const SharedAllocator<U>&) const {
    return true;
  }

 private:
  rueda_session* session_;
};

/// A vector whose elements ranks of this host reduce in place:
///
///   rueda::SharedVector<float> gradients(count, rueda::SharedAllocator<float>(session));
///   session.allreduce(gradients, {.name = "gradients"});
///
/// Gradients that an optimizer keeps in such vectors are reduced in place by DistributedOptimizer.
template <typename T>
using SharedVector = std::vector<T, SharedAllocator<T>>;

}  // namespace rueda
