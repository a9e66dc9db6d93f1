#pragma once
#include "bindings/c/rueda.h"
#include "runtime/store/store.h"

namespace rueda::core {

/// Presents the caller's table of functions as a Store. Used on the thread that runs rueda_init.
class CallbackStore : public Store {
 public:
  /// Copies the table; its context is borrowed during rueda_init. Returns kInvalidArgument if a function is missing.
  static Result<std::unique_ptr<CallbackStore>> make(const rueda_store* table);

  Status set(std::string_view key, std::string_view value) override;
  Result<std::string> get(std::string_view key, Deadline deadline) override;
  Result<int64_t> add(std::string_view key, int64_t amount) override;
  Status remove(std::string_view key) override;

 private:
  explicit CallbackStore(const rueda_store& table) : table_(table) {}
  rueda_store table_;
};

}  // namespace rueda::core
