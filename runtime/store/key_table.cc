// Keys, values and waiters of a store. Every new value goes through `set`, so it alone wakes waiters and checks limits:
//
//   check sizes ─▶ check the total ─▶ write ─▶ take the key's waiters out ─▶ call them
//
// Waiters are called last and from a list of their own, because a waiter may call the table again.
#include "runtime/store/key_table.h"

#include <charconv>
#include <exception>
#include <iterator>
#include <optional>
#include <vector>

#include "runtime/store/store.h"
#include "runtime/store/store_keys.h"

namespace rueda::core {
namespace {

Status check_sizes(std::string_view key, size_t value_bytes) {
  if (key.empty() || key.size() > kMaxKeyBytes) {
    return {Code::kInvalidArgument, "store: a key has " + std::to_string(key.size()) + " bytes; a key has 1 to " +
                                        std::to_string(kMaxKeyBytes)};
  }
  if (value_bytes > kMaxValueBytes) {
    return {Code::kInvalidArgument, "store: the value for \"" + std::string(key) + "\" has " +
                                        std::to_string(value_bytes) + " bytes; the limit is " +
                                        std::to_string(kMaxValueBytes)};
  }
  return {};
}

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Status KeyTable::set(std::string_view key, std::string_view value) {
  RUEDA_RETURN_IF_ERROR(check_sizes(key, value.size()));
  const auto old = values_.find(key);
  const size_t freed = old == values_.end() ? 0 : old->second.size() + key.size();
  if (bytes_ - freed + key.size() + value.size() > kMaxTotalBytes) {
    return {Code::kSystem, "store: \"" + std::string(key) + "\" does not fit; the store holds " +
                               std::to_string(bytes_) + " of " + std::to_string(kMaxTotalBytes) + " bytes"};
  }
  const auto [first, last] = waiters_.equal_range(key);
  std::vector<Waiter> woken;
  woken.reserve(static_cast<size_t>(std::distance(first, last)));
  const std::string copy(value);  // `value` may point into the table, which a waiter may change
  if (old != values_.end()) {
    old->second = value;
  } else {
    values_.emplace(key, value);
  }
  bytes_ += key.size() + value.size() - freed;  // from here to the waiters nothing throws
  for (auto it = first; it != last; ++it) {
    numbers_.erase(it->second.number);
    woken.push_back(std::move(it->second.call));
  }
  waiters_.erase(first, last);
  std::exception_ptr failed;  // the first; all others hear of the value all the same
  for (const Waiter& waiter : woken) {
    try {
      waiter(copy);
    } catch (...) {
      if (failed == nullptr) failed = std::current_exception();
    }
  }
  if (failed != nullptr) std::rethrow_exception(failed);
  return {};
}

Result<int64_t> KeyTable::add(std::string_view key, int64_t amount) {
  const std::string* held = find(key);
  const auto before = held == nullptr ? 0 : whole_number(*held);
  int64_t sum = 0;
  if (!before || __builtin_add_overflow(*before, amount, &sum)) {
    return Status(Code::kInvalidArgument, "store: cannot add " + std::to_string(amount) + " to the value of \"" +
                                              std::string(key) + "\": it is not a number, or the sum leaves 64 bits");
  }
  if (amount == 0) return sum;  // a reader must not wake those that watch the counter for its writer
  RUEDA_RETURN_IF_ERROR(set(key, std::to_string(sum)));
  return sum;
}

void KeyTable::remove(std::string_view key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return;
  bytes_ -= found->first.size() + found->second.size();
  values_.erase(found);
}

void KeyTable::remove_all(std::string_view prefix) {
  auto at = values_.lower_bound(prefix);
  while (at != values_.end() && at->first.starts_with(prefix)) {
    if (at->first == end_key(at->first)) {
      ++at;
      continue;
    }
    bytes_ -= at->first.size() + at->second.size();
    at = values_.erase(at);
  }
}

const std::string* KeyTable::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

uint64_t KeyTable::wait(std::string_view key, Waiter waiter) {
  const uint64_t number = next_waiter_++;
  const auto waiting = waiters_.emplace(key, Waiting{number, std::move(waiter)});
  try {
    numbers_.emplace(number, waiting);
  } catch (...) {
    waiters_.erase(waiting);
    throw;
  }
  return number;
}

void KeyTable::cancel(uint64_t number) {
  const auto found = numbers_.find(number);
  if (found == numbers_.end()) return;
  waiters_.erase(found->second);
  numbers_.erase(found);
}

}  // namespace rueda::core
