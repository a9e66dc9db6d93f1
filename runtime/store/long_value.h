#pragma once
#include <string>
#include <string_view>

#include "runtime/store/store.h"

namespace rueda::core {

/// The most bytes of a long value: a world of about half a million ranks.
inline constexpr size_t kMaxLongBytes = 64u << 20;

/// Writes a value that may be longer than a store's limit for one value, in parts. It is written once: a reader of a
/// key that is written anew may get parts of both values. Returns kInvalidArgument if the value has more than
/// kMaxLongBytes, and what `Store::set` returns.
Status set_long(Store& store, std::string_view key, std::string_view value);
/// Waits until the key has its whole value and returns it. Returns kTimeout with the key at the deadline, kMismatch if
/// the parts do not make a value of `set_long`.
Result<std::string> get_long(Store& store, std::string_view key, Deadline deadline);
/// Removes all parts of a value; does nothing if the key is absent. Does not wait.
Status remove_long(Store& store, std::string_view key);

}  // namespace rueda::core
