#pragma once
#include <memory>

#include "runtime/rendezvous/identity.h"
#include "runtime/store/store_client.h"

namespace rueda::core {

/// Returns where `choice` is, for clients of this identity; kInvalidArgument if the address does not parse.
Result<StoreLocation> locate_store(const StoreChoice& choice, const Identity& identity);

/// Opens the store of `choice`: a client, or the server itself on a rank 0 that serves. The server lives as long as the
/// process, because other ranks may look for it before this one calls `init` again; a second call with the same
/// address, job and key returns the same server. Returns null for StoreKind::kNone. Any thread. Errors as
/// `StoreServer::start` and `StoreClient::connect`; also kInvalidArgument if this process serves another job at the
/// address. A rank 0 that cannot serve a job on one host stays for up to 7 s to tell the other ranks, which return the
/// same sentence.
Result<std::shared_ptr<Store>> open_store(const StoreChoice& choice, const Identity& identity, Deadline deadline);

}  // namespace rueda::core
