// Ranks as threads through the C interface alone. A callback store stands for the application's. A body that throws
// shuts its session down first, or the other ranks would wait for it.
#include "tests/support/rank_threads.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <thread>

#include "runtime/base/mutex.h"

namespace rueda::test {
namespace {

constexpr uint8_t kKey[32] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
constexpr double kInitSeconds = 120;

core::MemoryStore& store_of(void* context) { return *static_cast<core::MemoryStore*>(context); }

int32_t set_value(void* context, const char* key, const void* value, size_t bytes) {
  return static_cast<int32_t>(store_of(context).set(key, {static_cast<const char*>(value), bytes}).code());
}

int32_t get_value(void* context, const char* key, void* value, size_t capacity, size_t* bytes, double timeout_seconds) {
  const auto limit =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(timeout_seconds));
  const auto found = store_of(context).get(key, core::Deadline::after(limit));
  if (!found.ok()) return static_cast<int32_t>(found.status().code());
  *bytes = found.value().size();
  if (capacity > 0) std::memcpy(value, found.value().data(), std::min(capacity, *bytes));
  return RUEDA_OK;
}

int32_t add_to(void* context, const char* key, int64_t amount, int64_t* sum) {
  const auto result = store_of(context).add(key, amount);
  if (!result.ok()) return static_cast<int32_t>(result.status().code());
  *sum = result.value();
  return RUEDA_OK;
}

void run_and_leave(rueda_session* session, int rank, const std::function<void(rueda_session*, int)>& body) {
  try {
    body(session, rank);
  } catch (...) {
    static_cast<void>(rueda_shutdown(session));  // so that the others do not wait for this rank
    throw;
  }
  expect_code(rueda_shutdown(session), RUEDA_OK, "shutdown of rank " + std::to_string(rank));
}

}  // namespace

void expect(bool holds, const std::string& sentence) {
  if (!holds) throw std::runtime_error(sentence);
}

void expect_code(int32_t code, int32_t expected, const std::string& what) {
  expect(code == expected, what + " gave " + rueda_error_name(code) + ", expected " + rueda_error_name(expected) +
                               ": " + rueda_last_error());
}

CallbackStore::CallbackStore() {
  table_.struct_size = sizeof table_;
  table_.context = &store_;
  table_.set = set_value;
  table_.get = get_value;
  table_.add = add_to;
}

rueda_init_options join_options(const CallbackStore& store, int rank, int size) {
  rueda_init_options options{};
  options.struct_size = sizeof options;
  options.has_rank = 1;
  options.rank = rank;
  options.size = size;
  options.store = store.c_store();
  options.job_key = kKey;
  options.job_key_bytes = sizeof kKey;
  options.timeout_seconds = kInitSeconds;
  return options;
}

rueda_session* join(const CallbackStore& store, int rank, int size, int32_t* code) {
  const rueda_init_options options = join_options(store, rank, size);
  rueda_session* session = nullptr;
  const int32_t result = rueda_init(&options, &session);
  if (code != nullptr) {
    *code = result;
  } else {
    expect_code(result, RUEDA_OK, "init of rank " + std::to_string(rank));
  }
  return session;
}

rueda_session* join_on(const CallbackStore& store, int rank, int size, const std::string& host) {
  rueda_init_options options = join_options(store, rank, size);
  options.host_name = host.c_str();
  rueda_session* session = nullptr;
  expect_code(rueda_init(&options, &session), RUEDA_OK, "init of rank " + std::to_string(rank) + " on " + host);
  return session;
}

void on_threads(int size, const std::function<void(int rank)>& body) {
  core::Mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        const core::MutexLock lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

void run_ranks(int size, const std::function<void(rueda_session* session, int rank)>& body) {
  const CallbackStore store;
  on_threads(size, [&](int rank) { run_and_leave(join(store, rank, size), rank, body); });
}

void run_ranks(std::span<const std::string> hosts, const std::function<void(rueda_session* session, int rank)>& body) {
  const CallbackStore store;
  const auto size = static_cast<int>(hosts.size());
  on_threads(
      size, [&](int rank) { run_and_leave(join_on(store, rank, size, hosts[static_cast<size_t>(rank)]), rank, body); });
}

CTensor::CTensor(void* data, int32_t dtype, std::vector<int64_t> shape) : shape_(std::move(shape)) {
  tensor_.struct_size = sizeof tensor_;
  tensor_.data = data;
  tensor_.dtype = dtype;
  tensor_.dimensions = static_cast<int32_t>(shape_.size());
  tensor_.shape = shape_.data();
}

rueda_op_options named(const char* name) {
  rueda_op_options options{};
  options.struct_size = sizeof options;
  options.name = name;
  return options;
}

}  // namespace rueda::test
