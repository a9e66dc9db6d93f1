#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/c/rueda.h"
#include "runtime/store/memory_store.h"

namespace rueda::test {

/// Throws std::runtime_error with `sentence`. For threads other than the test's own, where Catch's macros may not be
/// used.
void expect(bool holds, const std::string& sentence);
/// Expects `code`; `what` and the library's last sentence are in the failure.
void expect_code(int32_t code, int32_t expected, const std::string& what);

/// A store inside this process as rueda_init takes it. Any number of threads at a time.
class CallbackStore {
 public:
  CallbackStore();
  CallbackStore(const CallbackStore&) = delete;
  CallbackStore& operator=(const CallbackStore&) = delete;
  const rueda_store* c_store() const { return &table_; }

 private:
  core::MemoryStore store_;
  rueda_store table_{};
};

/// How a rank of a job of `size` ranks that meet in `store` joins it, under a fixed key. Borrows the store.
rueda_init_options join_options(const CallbackStore& store, int rank, int size);
/// Joins a job of `size` ranks that meet in `store`, under a fixed key; what rueda_init returned is `code` where given,
/// else expected to be ok.
rueda_session* join(const CallbackStore& store, int rank, int size, int32_t* code = nullptr);
/// The same as a rank on a host of this name, which shares no memory with others.
rueda_session* join_on(const CallbackStore& store, int rank, int size, const std::string& host);

/// Runs `body(rank)` on a thread for each rank, joins them, and throws what was thrown first.
void on_threads(int size, const std::function<void(int rank)>& body);

/// Ranks as threads: each joins a new job, runs `body` and shuts down. Throws what was thrown first.
void run_ranks(int size, const std::function<void(rueda_session* session, int rank)>& body);
/// The same with the name of each rank's host.
void run_ranks(std::span<const std::string> hosts, const std::function<void(rueda_session* session, int rank)>& body);

/// A tensor over a vector, with the shape that goes with it. Borrows the vector.
class CTensor {
 public:
  template <typename T>
  CTensor(std::vector<T>& elements, int32_t dtype)
      : CTensor(elements.data(), dtype, {static_cast<int64_t>(elements.size())}) {}
  CTensor(void* data, int32_t dtype, std::vector<int64_t> shape);
  CTensor(const CTensor&) = delete;  // the struct points into the shape
  CTensor& operator=(const CTensor&) = delete;
  const rueda_tensor* get() const { return &tensor_; }
  rueda_tensor* operator->() { return &tensor_; }

 private:
  std::vector<int64_t> shape_;
  rueda_tensor tensor_{};
};

/// Options with nothing but a name, which is borrowed; null: unnamed.
rueda_op_options named(const char* name);

}  // namespace rueda::test
