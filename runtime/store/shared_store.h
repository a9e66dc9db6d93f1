#pragma once
#include <memory>

#include "runtime/store/store_client.h"

namespace rueda::core {

/// The store at `where`, over a connection of its own. As `StoreClient::connect`.
Result<std::unique_ptr<Store>> open_own_store(const StoreLocation& where, Deadline deadline);

/// The store at `where`, which has a key, over one connection for all processes of this user and network namespace that
/// ask for it this way at about the same time: the first of them relays for the others until they have dropped theirs,
/// at most as long as it lives. Who gets nowhere with another's relay connects by itself. A client whose relay has
/// ended says so (kSystem). Any thread, the store one thread at a time. Else as `open_own_store`.
Result<std::unique_ptr<Store>> open_shared_store(const StoreLocation& where, Deadline deadline);

}  // namespace rueda::core
