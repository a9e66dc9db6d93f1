// Opens the store that was chosen: rank 0 serves, the others connect. A server stays for the life of its process,
// because in the next epoch the other ranks may look for it before rank 0 calls init again. So the servers are in a
// table of the process, by address.
#include "runtime/rendezvous/open_store.h"

#include <cerrno>
#include <map>

#include "runtime/base/mutex.h"
#include "runtime/base/shortage.h"
#include "runtime/store/shared_store.h"
#include "runtime/store/store_notice.h"
#include "runtime/store/store_server.h"

namespace rueda::core {
namespace {

/// How long rank 0 stays to tell that it cannot serve: as long as an attempt of the others may take, and a bit.
constexpr std::chrono::seconds kTelling{7};

struct Served {
  std::string job;
  JobKey key;
  std::shared_ptr<StoreServer> server;
};

/// A port belongs to the process, and so do the servers. Never destroyed: threads may use them while the process exits.
struct ProcessServers {
  Mutex mutex;
  std::map<std::string, Served> by_address RUEDA_GUARDED_BY(mutex);
};

ProcessServers& process_servers() {
  static auto* servers = new ProcessServers;
  return *servers;
}

Result<std::shared_ptr<Store>> serve(const StoreLocation& where, const std::string& address) {
  ProcessServers& servers = process_servers();
  MutexLock lock(servers.mutex);
  const auto known = servers.by_address.find(address);
  if (known != servers.by_address.end()) {
    const Served& served = known->second;
    const bool same =
        served.job == where.job && served.key.present == where.key.present && served.key.bytes == where.key.bytes;
    if (same) return std::shared_ptr<Store>(served.server);
    return Status(Code::kInvalidArgument, "this process already serves job \"" + served.job + "\" at " + address +
                                              ", with another name or key");
  }
  StoreServerOptions options;
  options.addresses = {where.host};
  options.port = where.port;
  options.job = where.job;
  options.key = where.key;
  auto server = StoreServer::start(options);
  if (!server.ok()) {
    const std::string& why = server.status().sentence();
    const bool taken = why.find(reason_of(EADDRINUSE)) != std::string::npos;
    return Status(server.status().code(),
                  "rank 0 cannot serve the store at " + address + ": " + why +
                      (taken ? "; free the port, or set RUEDA_STORE_ADDR to another one on all ranks" : ""));
  }
  const std::shared_ptr<StoreServer> shared = std::move(server).value();
  servers.by_address.emplace(address, Served{where.job, where.key, shared});
  return std::shared_ptr<Store>(shared);
}

}  // namespace

Result<StoreLocation> locate_store(const StoreChoice& choice, const Identity& identity) {
  auto where = parse_store_address(choice.address);
  if (!where.ok()) return where.status();
  where.value().job = identity.job;
  where.value().key = identity.key;
  return where;
}

namespace {

/// Serves, or tells the ranks of this host why that cannot be. They look for the notice between two attempts.
Result<std::shared_ptr<Store>> serve_or_tell(const StoreLocation& where, const StoreChoice& choice,
                                             const Identity& identity, Deadline deadline) {
  auto served = serve(where, choice.address);
  if (served.ok() || where.notice.empty()) return served;
  give_notice(where.notice, served.status().sentence(), identity.size - 1, deadline.earlier(Deadline::after(kTelling)));
  return served;
}

}  // namespace

Result<std::shared_ptr<Store>> open_store(const StoreChoice& choice, const Identity& identity, Deadline deadline) {
  if (choice.kind == StoreKind::kNone) return std::shared_ptr<Store>();
  auto where = locate_store(choice, identity);
  if (!where.ok()) return where.status();
  const bool rank_zero_serves = choice.kind == StoreKind::kRankZero;
  if (rank_zero_serves && all_here(identity, choice)) where.value().notice = notice_name(where.value());
  if (rank_zero_serves && identity.rank == 0) return serve_or_tell(where.value(), choice, identity, deadline);
  // Ranks of one host share a connection, so rank 0 serves as many connections as there are hosts. A relay proves
  // itself with the key, so there is none without a key.
  const bool has_neighbours = identity.local_size > 1 && identity.local_size < identity.size;
  const bool shares = choice.kind == StoreKind::kRankZero && identity.key.present && has_neighbours;
  auto client = shares ? open_shared_store(where.value(), deadline) : open_own_store(where.value(), deadline);
  if (!client.ok()) {
    const Status why = client.status();
    if (choice.kind != StoreKind::kRankZero || why.code() != Code::kTimeout) return why;
    return Status(why.code(), why.sentence() + "; rank 0 opens it in its init and has not done so at this address", 0);
  }
  return std::shared_ptr<Store>(std::move(client).value());
}

}  // namespace rueda::core
