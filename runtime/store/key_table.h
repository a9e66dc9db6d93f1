#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace rueda::core {

/// Keys, their values, and the waiters for absent keys: every store of the runtime has one inside. Not thread-safe; its
/// owner serialises.
class KeyTable {
 public:
  /// The limit for all keys and values together.
  static constexpr size_t kMaxTotalBytes = 256u << 20;
  /// `set` or `add` calls it once, after the table has changed. It may call the table. What it throws passes through
  /// `set`, once all waiters have been called.
  using Waiter = std::function<void(const std::string& value)>;

  /// Returns kInvalidArgument if key or value is too long, kSystem if the table is full.
  Status set(std::string_view key, std::string_view value);
  /// Returns the sum. Sets nothing if `amount` is 0. Returns kInvalidArgument if the value is not a whole number or the
  /// sum leaves 64 bits.
  Result<int64_t> add(std::string_view key, int64_t amount);
  /// Removes the key and its value; does nothing if the key is absent.
  void remove(std::string_view key);
  /// Removes every key that begins with `prefix`, which is not empty, apart from verdicts.
  void remove_all(std::string_view prefix);
  /// Returns the value, null if the key is absent. Valid until the next change.
  const std::string* find(std::string_view key) const;
  /// Registers a waiter for an absent key. Returns the number for `cancel`, never 0.
  uint64_t wait(std::string_view key, Waiter waiter);
  void cancel(uint64_t number);
  size_t waiting() const { return waiters_.size(); }

 private:
  struct Waiting {
    uint64_t number = 0;
    Waiter call;
  };
  using Waiters = std::multimap<std::string, Waiting, std::less<>>;  // those of one key in the order of their calls
  std::map<std::string, std::string, std::less<>> values_;
  Waiters waiters_;
  std::map<uint64_t, Waiters::iterator> numbers_;
  uint64_t next_waiter_ = 1;
  size_t bytes_ = 0;
};

}  // namespace rueda::core
