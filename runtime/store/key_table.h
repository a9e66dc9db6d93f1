#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace rueda::core {

/// Keys, values, and who waits for a key: the inside of every store of ours. Not shared between threads: its owner
/// serialises.
class KeyTable {
 public:
  /// What all keys and values together may take.
  static constexpr size_t kMaxTotalBytes = 256u << 20;
  /// Called once, from `set` or `add`, after the table has changed; may call the table.
  using Waiter = std::function<void(const std::string& value)>;

  /// kInvalidArgument: key or value too long. kSystem: the table is full.
  Status set(std::string_view key, std::string_view value);
  /// kInvalidArgument: the key holds no whole number, or the sum leaves 64 bits.
  Result<int64_t> add(std::string_view key, int64_t amount);
  /// Null when absent; valid until the next change.
  const std::string* find(std::string_view key) const;
  /// Registers a waiter for an absent key; the number cancels it.
  uint64_t wait(std::string_view key, Waiter waiter);
  void cancel(uint64_t number);
  size_t waiting() const { return waiters_.size(); }

 private:
  struct Waiting {
    uint64_t number = 0;
    Waiter call;
  };
  using Waiters = std::multimap<std::string, Waiting, std::less<>>;  // of a key in the order in which they came
  std::map<std::string, std::string, std::less<>> values_;
  Waiters waiters_;
  std::map<uint64_t, Waiters::iterator> numbers_;
  uint64_t next_waiter_ = 1;
  size_t bytes_ = 0;
};

}  // namespace rueda::core
