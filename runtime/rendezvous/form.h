#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/build_id.h"
#include "runtime/base/cutoff.h"
#include "runtime/base/unique_fd.h"
#include "runtime/net/fabric_transport.h"
#include "runtime/net/local_exchange.h"
#include "runtime/net/segment.h"
#include "runtime/net/transport.h"
#include "runtime/rendezvous/epoch_plan.h"
#include "runtime/rendezvous/identity.h"
#include "runtime/rendezvous/segment_reserve.h"
#include "runtime/store/store.h"

namespace rueda::core {

/// Everything an engine needs for one epoch. Movable; the engine owns it. `form_epoch` makes it.
struct Formation {
  EpochPlan plan;
  JobKey key;
  std::shared_ptr<Segment> segment;      ///< this rank's own
  std::shared_ptr<TensorArena> arena;    ///< for this rank's tensors; null if no rank could map it
  UniqueFd doorbell;                     ///< this rank's coordinator eventfd (non-blocking)
  std::vector<LocalPeer> local;          ///< other ranks of this host, ascending
  std::unique_ptr<Transport> transport;  ///< sockets to ranks that share no memory with this one; null in a job of one
};

/// Options that differ between jobs.
struct FormOptions {
  std::string build = build_id();
  FabricShare fabric = {};  ///< what a library's network carries instead of TCP
  /// The process sets that init's caller gave, as a text of at most 1 KiB. A rank with another text is not admitted.
  std::string process_sets = {};
  /// The job in whose one sequence epochs are numbered; empty: the identity's. All plans of an elastic job share one.
  std::string numbered_by = {};
  /// Once it is raised, `form_epoch` gives up with its reason, unless it is about to succeed. May be null.
  const Cutoff* cutoff = nullptr;
  SegmentReserve* reserve = nullptr;  ///< memory that was prepared for the segment; may be null
};

/// Forms an epoch through the store. In this order: ranks meet by the protocol of wishes (`roll_call.h`), rank 0
/// compares their protocol numbers, builds, process sets and settings and publishes their endpoints, ranks of a host
/// exchange descriptors, rank 0 publishes which ranks share memory, and control connections to the others come up.
/// Blocks at most until `deadline`, plus what the store needs to answer. A job of one rank uses neither sockets nor
/// `store`, which may then be null.
/// Returns kTimeout with the ranks that never came; kMismatch with a table of the differences, the same on all ranks;
/// kSystem with the rank that could not take part; the reason of `options.cutoff`; kInvalidArgument if the identity is
/// wrong or the store is missing. After a failure nothing is left, and the caller may call it again.
Result<Formation> form_epoch(const Identity& identity, Store* store, const Settings& settings, Deadline deadline,
                             const FormOptions& options = {});

}  // namespace rueda::core
