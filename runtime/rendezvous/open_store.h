#pragma once
#include <memory>

#include "runtime/rendezvous/identity.h"
#include "runtime/store/store_client.h"

namespace rueda::core {

/// Where `choice` is, for clients of this identity. kInvalidArgument: the address does not parse.
Result<StoreLocation> locate_store(const StoreChoice& choice, const Identity& identity);

/// The store of `choice`: a client, or on a rank 0 that serves the server itself. Such a server lives as long as the
/// process, because other ranks may look for it before this one calls `init` again: a second call with the same
/// address, job and key gets the same. Null for StoreKind::kNone. Any thread. Errors as `StoreServer::start` and
/// `StoreClient::connect`; kInvalidArgument also if this process already serves another job at the address.
Result<std::shared_ptr<Store>> open_store(const StoreChoice& choice, const Identity& identity, Deadline deadline);

}  // namespace rueda::core
