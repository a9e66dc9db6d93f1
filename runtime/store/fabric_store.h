#pragma once
#include <memory>

#include "runtime/base/mutex.h"
#include "runtime/net/fabric.h"
#include "runtime/store/key_table.h"
#include "runtime/store/store.h"
#include "runtime/store/store_protocol.h"

namespace rueda::core {

/// The store of a job whose ranks a fabric connects: rank 0 holds the table, the others ask it by frames.
///
///   rank r   | u64 number | request |     an empty frame means that it asks no more
///   rank 0   | u64 number | reply |       the number tells a late answer from the one that is awaited
///
/// One thread at a time uses it, as every store. Rank 0's destructor waits for the other ranks to end theirs.
class FabricStore : public Store {
 public:
  /// `set`, `add` and `remove` wait for rank 0's answer until `limit`, and at least 2 s; rank 0's destructor waits as
  /// long for the other ranks.
  FabricStore(std::shared_ptr<Fabric> fabric, Deadline limit);
  ~FabricStore() override;
  FabricStore(const FabricStore&) = delete;
  FabricStore& operator=(const FabricStore&) = delete;

  Status set(std::string_view key, std::string_view value) override;
  Result<std::string> get(std::string_view key, Deadline deadline) override;
  Result<int64_t> add(std::string_view key, int64_t amount) override;
  Status remove(std::string_view key) override;
  bool ends_with_process() const override { return serves(); }

 private:
  bool serves() const { return fabric_->rank() == 0; }
  void serve(int rank, std::span<const std::byte> frame) RUEDA_EXCLUDES(mutex_);
  void take_reply(std::span<const std::byte> frame) RUEDA_EXCLUDES(mutex_);
  void answer(int rank, uint64_t number, const StoreReply& reply);
  void answer_get(int rank, uint64_t number, const StoreRequest& request) RUEDA_REQUIRES(mutex_);
  Result<StoreReply> ask(const StoreRequest& request, Deadline deadline) RUEDA_EXCLUDES(mutex_);
  Deadline patience() const;
  /// Waits for `ready`, which is called with the mutex held. Returns false at the deadline or if the fabric has failed.
  template <typename Ready>
  bool wait_until(Ready&& ready, Deadline deadline) RUEDA_REQUIRES(mutex_);

  const std::shared_ptr<Fabric> fabric_;
  const Deadline limit_;
  Mutex mutex_;
  Condition changed_;
  KeyTable table_ RUEDA_GUARDED_BY(mutex_);  ///< on rank 0
  int done_ RUEDA_GUARDED_BY(mutex_) = 0;    ///< ranks that ask no more
  uint64_t asked_ RUEDA_GUARDED_BY(mutex_) = 0;
  std::optional<StoreReply> reply_ RUEDA_GUARDED_BY(mutex_);  ///< the answer to request number `asked_`
};

}  // namespace rueda::core
