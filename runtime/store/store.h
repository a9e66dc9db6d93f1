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

/// A small key-value store through which ranks meet. Values are bytes, at most kMaxValueBytes; keys at most
/// kMaxKeyBytes. Implementations are used by one thread at a time and block.
class Store {
 public:
  virtual ~Store() = default;
  /// Writes the value; an earlier one is replaced.
  virtual Status set(std::string_view key, std::string_view value) = 0;
  /// Waits until the key has a value. kTimeout names the key.
  virtual Result<std::string> get(std::string_view key, Deadline deadline) = 0;
  /// Adds to a decimal counter (0 when absent) and returns the sum, atomically.
  virtual Result<int64_t> add(std::string_view key, int64_t amount) = 0;
  /// Whether the values are gone when this process ends.
  virtual bool ends_with_process() const { return false; }
  /// Who came and was not let in, as a clause for an error: "3 connections to ... ". Empty: nobody, or not known here.
  virtual std::string turned_away() { return {}; }
};

}  // namespace rueda::core
