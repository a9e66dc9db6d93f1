// Finds the address at which the ranks of a job meet. Every rank must find the same one without a message, so a port is
// either given or computed from the job's name. The order goes from the explicit to the inferred: Rueda's own variable,
// torchrun's, one host, Slurm's nodes. Nothing is guessed beyond that; the error says what to set.
#include <charconv>
#include <string_view>

#include "runtime/rendezvous/identity.h"
#include "runtime/rendezvous/node_list.h"
#include "runtime/store/job_key.h"
#include "runtime/store/store_client.h"

namespace rueda::core {
namespace {

/// Below the ports that Linux gives to outgoing connections (32768 and up).
constexpr uint32_t kFirstPort = 20000;
constexpr uint32_t kPorts = 12000;

/// FNV-1a of the text: the same port on every rank, and rarely the same for two jobs.
std::string port_for(std::string_view text) {
  uint32_t hash = 2166136261u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  return std::to_string(kFirstPort + hash % kPorts);
}

/// The port after the one at which torchrun's own store listens.
Result<StoreChoice> beside_master(const std::string& host, const std::string& port) {
  const auto master = parse_store_address(host + ":" + port);
  if (!master.ok()) {
    return Status(Code::kInvalidArgument, "MASTER_ADDR and MASTER_PORT: " + master.status().sentence());
  }
  // There is no port after 65535, so the one before it.
  const int number = master.value().port == 65535 ? 65534 : master.value().port + 1;
  return StoreChoice{StoreKind::kRankZero, host + ":" + std::to_string(number)};
}

Result<StoreChoice> find_store(const Identity& identity, const Environment& environment) {
  if (const auto address = environment("RUEDA_STORE_ADDR")) {
    const auto where = parse_store_address(*address);
    if (!where.ok()) return Status(Code::kInvalidArgument, "RUEDA_STORE_ADDR: " + where.status().sentence());
    const auto server = environment("RUEDA_STORE");
    if (server && *server != "launcher" && *server != "rank0") {
      return Status(Code::kInvalidArgument,
                    "RUEDA_STORE: \"" + *server + "\" is not allowed; allowed: launcher, rank0");
    }
    return StoreChoice{server == "launcher" ? StoreKind::kLauncher : StoreKind::kRankZero, *address};
  }
  const auto master = environment("MASTER_ADDR");
  const auto port = environment("MASTER_PORT");
  if (master && port) return beside_master(*master, *port);
  const auto step = environment("SLURM_STEP_ID");
  const auto nodes = environment("SLURM_STEP_NODELIST");
  // The step is part of the port: two steps of one Slurm job may run at the same time.
  if (identity.local_size == identity.size)
    return StoreChoice{StoreKind::kRankZero, "127.0.0.1:" + port_for(identity.job + (step ? "." + *step : ""))};
  if (step && nodes) {
    const auto names = expand_nodes(*nodes);
    if (!names.ok()) return Status(Code::kInvalidArgument, "SLURM_STEP_NODELIST: " + names.status().sentence());
    return StoreChoice{StoreKind::kRankZero, names.value().front() + ":" + port_for(identity.job + "." + *step)};
  }
  if (master || port) {
    return Status(Code::kInvalidArgument, std::string(master ? "MASTER_PORT" : "MASTER_ADDR") + " is not set, but " +
                                              (master ? "MASTER_ADDR" : "MASTER_PORT") + " is");
  }
  return Status(Code::kInvalidArgument,
                "nothing says where the " + std::to_string(identity.size) +
                    " ranks meet; set RUEDA_STORE_ADDR to host:port of rank 0, the same for all");
}

}  // namespace

bool all_here(const Identity& identity, const StoreChoice& choice) {
  if (identity.local_size == identity.size) return true;
  const auto where = parse_store_address(choice.address);
  if (!where.ok()) return false;
  const std::string& host = where.value().host;
  return host.starts_with("127.") || host == "localhost" || host == "::1";
}

Result<StoreChoice> choose_store(const Identity& identity, const Environment& environment) {
  if (identity.size == 1) return StoreChoice{};
  return find_store(identity, environment);
}

Status provide_key(Identity& identity, const StoreChoice& choice, const Settings& settings,
                   const Environment& environment) {
  if (choice.kind == StoreKind::kNone || identity.key.present || settings.insecure) return {};
  // The user's own key keeps other users of the host out; other hosts cannot read it, so it serves one host only.
  if (choice.kind == StoreKind::kRankZero && all_here(identity, choice)) {
    const auto key = user_key(environment);
    if (!key.ok()) return key.status();
    identity.key = key.value();
    return {};
  }
  return {Code::kInvalidArgument,
          std::string("the job has no key, so any process could join it; ") + how_to_make_a_key()};
}

/// The caller's store is often torchrun's, which serves whoever reaches its port.
Status provide_key_beside_store(Identity& identity, const Settings& settings, const Environment& environment) {
  const std::string size = std::to_string(identity.size);
  const bool one_host = environment("WORLD_SIZE") == size && environment("LOCAL_WORLD_SIZE") == size;
  if (!one_host || identity.size == 1 || identity.key.present || settings.insecure) return {};
  const auto key = user_key(environment);
  if (!key.ok()) return key.status();
  identity.key = key.value();
  return {};
}

}  // namespace rueda::core
