#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"

namespace rueda::core {

inline constexpr size_t kMaxKeyBytes = 1024;
inline constexpr size_t kMaxValueBytes = 1u << 20;

/// A small key-value store through which ranks meet. A value is at most kMaxValueBytes of bytes; a key has 1 to
/// kMaxKeyBytes. One thread at a time uses a store; its calls block.
class Store {
 public:
  virtual ~Store() = default;
  /// Writes the value and replaces an earlier one.
  virtual Status set(std::string_view key, std::string_view value) = 0;
  /// Waits until the key has a value and returns it. Returns kTimeout with the key at the deadline.
  virtual Result<std::string> get(std::string_view key, Deadline deadline) = 0;
  /// Adds to a decimal counter (0 if absent) and returns the sum, in one atomic step. In Rueda's own stores 0 only
  /// reads: the key stays absent, and its watches are not called.
  virtual Result<int64_t> add(std::string_view key, int64_t amount) = 0;
  /// Removes the key and its value; does nothing if the key is absent. A store that cannot remove keys keeps the key
  /// with an empty value.
  virtual Status remove(std::string_view key) { return set(key, {}); }
  /// Returns true if the values are gone when this process ends.
  virtual bool ends_with_process() const { return false; }
  /// Describes the connections that were not let in, as a clause for an error: "3 connections to ...". Empty if there
  /// were none, or if this store does not know.
  virtual std::string turned_away() { return {}; }
};

/// What `get` returns at its deadline.
inline Status value_missing(std::string_view key) {
  return {Code::kTimeout, "store: \"" + std::string(key) + "\" has no value at the deadline"};
}

}  // namespace rueda::core
