#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "rueda/handle.hpp"

namespace rueda {

/// A key-value store of the caller's, through which the ranks find each other. Its functions may block. The thread that
/// makes the session calls them, one at a time, only while the session is being made. Their exceptions leave the
/// session's constructor.
class Store {
 public:
  virtual ~Store() = default;
  /// Writes the value and replaces an earlier one.
  virtual void set(std::string_view key, std::string_view value) = 0;
  /// Waits at most `timeout` until the key has a value. Returns nothing if none came.
  virtual std::optional<std::string> get(std::string_view key, Seconds timeout) = 0;
  /// Atomically adds to a counter (0 if absent) and returns the sum.
  virtual int64_t add(std::string_view key, int64_t amount) = 0;
  /// Removes the key and its value; does nothing if the key is absent. The default keeps the key with an empty value.
  virtual void remove(std::string_view key) { set(key, {}); }
};

namespace detail {

/// Presents a `Store` as the table of C callbacks. Keeps the first exception, because none may pass through the
/// library.
class CStore {
 public:
  explicit CStore(Store& callers) : store_(callers) {
    c_.struct_size = sizeof c_;
    c_.context = this;
    c_.set = [](void* self, const char* key, const void* value, size_t bytes) {
      return guard(self, [&](Store& store) {
        store.set(key, std::string_view(static_cast<const char*>(value), bytes));
        return int32_t{RUEDA_OK};
      });
    };
    c_.get = [](void* self, const char* key, void* value, size_t capacity, size_t* bytes, double timeout_seconds) {
      return guard(self, [&](Store& store) {
        const std::optional<std::string> found = store.get(key, Seconds(timeout_seconds));
        if (!found) return int32_t{RUEDA_TIMEOUT};
        if (!found->empty() && capacity > 0) std::memcpy(value, found->data(), std::min(capacity, found->size()));
        *bytes = found->size();
        return int32_t{RUEDA_OK};
      });
    };
    c_.add = [](void* self, const char* key, int64_t amount, int64_t* sum) {
      return guard(self, [&](Store& store) {
        *sum = store.add(key, amount);
        return int32_t{RUEDA_OK};
      });
    };
    c_.remove = [](void* self, const char* key) {
      return guard(self, [&](Store& store) {
        store.remove(key);
        return int32_t{RUEDA_OK};
      });
    };
  }
  CStore(const CStore&) = delete;  // the table points here
  CStore& operator=(const CStore&) = delete;

  const rueda_store* c_store() const { return &c_; }
  void rethrow() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  template <typename Body>
  static int32_t guard(void* context, Body body) {
    auto& self = *static_cast<CStore*>(context);
    try {
      return body(self.store_);
    } catch (...) {
      if (!self.thrown_) self.thrown_ = std::current_exception();
      return RUEDA_SYSTEM;
    }
  }

  Store& store_;
  rueda_store c_{};
  std::exception_ptr thrown_;
};

}  // namespace detail
}  // namespace rueda
