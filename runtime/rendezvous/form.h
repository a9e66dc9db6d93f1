#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/build_id.h"
#include "runtime/base/unique_fd.h"
#include "runtime/net/fabric_transport.h"
#include "runtime/net/local_exchange.h"
#include "runtime/net/segment.h"
#include "runtime/net/transport.h"
#include "runtime/rendezvous/epoch_plan.h"
#include "runtime/rendezvous/identity.h"
#include "runtime/store/store.h"

namespace rueda::core {

/// Everything an engine needs of one epoch. Movable; owned by the engine. Made by `form_epoch`.
struct Formation {
  EpochPlan plan;
  JobKey key;
  std::shared_ptr<Segment> segment;      ///< this rank's own
  UniqueFd doorbell;                     ///< this rank's coordinator eventfd (non-blocking)
  std::vector<LocalPeer> local;          ///< other ranks of this host, ascending
  std::unique_ptr<Transport> transport;  ///< sockets to ranks with which no memory is shared; null in a job of one
};

/// What is not the same for every job.
struct FormOptions {
  std::string build = build_id();
  FabricShare fabric = {};  ///< what goes over a library's network rather than TCP
  /// The sets that init's caller gave, in words of at most 1 KiB: ranks with other words are not let in.
  std::string process_sets = {};
};

/// Forms an epoch through the store: epoch number by the protocol of wishes (`roll_call.h`), endpoints, checks of
/// protocol number, build id, process sets and agreed settings, descriptors between local ranks, locality as a
/// partition, control connections to the others. Blocks, at most until `deadline` and what the store needs to answer. A
/// job of one rank uses neither `store`, which may then be null, nor sockets. kTimeout names the ranks that never came;
/// kMismatch carries the table of who has what, the same on all ranks; kSystem names the rank that could not take part.
/// After a failure nothing is left and it may be called again.
Result<Formation> form_epoch(const Identity& identity, Store* store, const Settings& settings, Deadline deadline,
                             const FormOptions& options = {});

}  // namespace rueda::core
