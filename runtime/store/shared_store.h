#pragma once
#include <memory>

#include "runtime/store/store_client.h"

namespace rueda::core {

/// Opens the store at `where` over a connection of its own. Errors as `StoreClient::connect`.
Result<std::unique_ptr<Store>> open_own_store(const StoreLocation& where, Deadline deadline);

/// Opens the store at `where`, which has a key, over one connection for all processes of this user and network
/// namespace that open it this way at about the same time. The first of them relays for the others until they have
/// dropped their stores, at most as long as it lives. A process that cannot use another's relay connects by itself.
/// Calls of a store whose relay has ended return kSystem and say so. Any thread; the store one thread at a time. Errors
/// as `open_own_store`.
Result<std::unique_ptr<Store>> open_shared_store(const StoreLocation& where, Deadline deadline);

}  // namespace rueda::core
