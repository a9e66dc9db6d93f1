#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "runtime/base/abort.h"
#include "runtime/base/unique_fd.h"
#include "runtime/net/control_link.h"
#include "runtime/net/local_exchange.h"
#include "runtime/net/mesh.h"
#include "runtime/net/segment.h"
#include "runtime/rendezvous/epoch_plan.h"
#include "runtime/rendezvous/store.h"

namespace rueda::core {

/// Who this process is in the job, from options, hvdrun's environment or another launcher's.
struct Identity {
  int rank = 0;
  int size = 1;
  std::string host;           ///< the launcher's name, else gethostname
  std::string job = "job";
  JobKey key;
  std::string worker;         ///< as in Endpoint
};

/// Everything an engine needs of one epoch. Movable; owned by the engine. Made by `form_epoch`.
struct Formation {
  EpochPlan plan;
  JobKey key;
  std::shared_ptr<Segment> segment;      ///< this rank's own
  UniqueFd doorbell;                     ///< this rank's coordinator eventfd (non-blocking)
  std::vector<LocalPeer> local;          ///< other ranks of this host, ascending
  /// Sockets of remote ranks and data connections live behind this; see `net/transport.h`.
  std::unique_ptr<class Transport> transport;
};

/// Forms an epoch through the store: epoch number by the wish/nonce protocol, endpoints, checks of protocol number, build
/// id and agreed settings, descriptors between local ranks, locality as a partition. Blocks, at most until `deadline`.
/// kTimeout names the ranks that never came; kMismatch carries the table of who has what, the same on all ranks.
/// After a failure nothing is left and it may be called again.
Result<Formation> form_epoch(const Identity& identity, Store& store, const Settings& settings, Deadline deadline);

}  // namespace rueda::core
