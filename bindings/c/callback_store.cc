// A store of the caller's, as rueda_init uses it. The length of a value is unknown before it is read: get begins with 4
// KiB and asks again with a larger buffer, up to the length that the store reports.
#include "bindings/c/callback_store.h"

#include <fmt/format.h>

#include "bindings/c/copy_in.h"

namespace rueda::core {
namespace {

constexpr size_t kFirstCapacity = 4096;
constexpr size_t kMostBytes = size_t{256} << 20;  // a world of a million ranks
constexpr double kForever = 1e9;

Status failure(const char* function, std::string_view key, int32_t code) {
  const Code known = code == RUEDA_TIMEOUT ? Code::kTimeout : Code::kSystem;
  return Status(known, fmt::format("the store's {}(\"{}\") returned {} ({})", function, key, code,
                                   code_name(static_cast<Code>(code))));
}

}  // namespace

Result<std::unique_ptr<CallbackStore>> CallbackStore::make(const rueda_store* table) {
  rueda_store functions{};
  RUEDA_RETURN_IF_ERROR(copy_in(table, "rueda_store", functions));
  if (functions.set == nullptr || functions.get == nullptr || functions.add == nullptr) {
    return Status(Code::kInvalidArgument, "rueda_store needs the functions set, get and add");
  }
  return std::unique_ptr<CallbackStore>(new CallbackStore(functions));
}

Status CallbackStore::set(std::string_view key, std::string_view value) {
  const int32_t code = table_.set(table_.context, std::string(key).c_str(), value.data(), value.size());
  return code == RUEDA_OK ? Status() : failure("set", key, code);
}

Result<std::string> CallbackStore::get(std::string_view key, Deadline deadline) {
  const std::string name(key);
  std::string value(kFirstCapacity, '\0');
  for (;;) {
    const double seconds =
        deadline.is_never() ? kForever : std::chrono::duration<double>(deadline.left(std::chrono::hours(24))).count();
    size_t bytes = 0;
    const int32_t code = table_.get(table_.context, name.c_str(), value.data(), value.size(), &bytes, seconds);
    if (code != RUEDA_OK) return failure("get", key, code);
    if (bytes > kMostBytes) {
      return Status(Code::kSystem,
                    fmt::format("the store's get(\"{}\") reports {} bytes; the limit is {}", key, bytes, kMostBytes));
    }
    const bool fits = bytes <= value.size();
    value.resize(bytes);
    if (fits) return value;
  }
}

Result<int64_t> CallbackStore::add(std::string_view key, int64_t amount) {
  int64_t sum = 0;
  const int32_t code = table_.add(table_.context, std::string(key).c_str(), amount, &sum);
  if (code != RUEDA_OK) return failure("add", key, code);
  return sum;
}

Status CallbackStore::remove(std::string_view key) {
  if (table_.remove == nullptr) return Store::remove(key);
  const int32_t code = table_.remove(table_.context, std::string(key).c_str());
  return code == RUEDA_OK ? Status() : failure("remove", key, code);
}

}  // namespace rueda::core
