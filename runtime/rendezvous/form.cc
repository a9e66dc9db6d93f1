// The entry to forming an epoch. A job of one rank forms alone, because it has no peer to meet: it needs neither store
// nor sockets. Every other job goes through `Forming`.
#include "runtime/rendezvous/form.h"

#include <unistd.h>

#include "runtime/rendezvous/forming.h"
#include "runtime/rendezvous/locality.h"

namespace rueda::core {
namespace {

/// The epochs of a job of one rank have a number as well, though no peer compares it.
constexpr uint64_t kLoneEpoch = 1;

Result<Formation> form_alone(const Identity& identity, const Settings& settings, SegmentReserve* reserve) {
  Formation formation;
  EpochPlan& plan = formation.plan;
  plan.job = identity.job;
  plan.epoch = kLoneEpoch;
  plan.settings = settings;
  plan.elastic = identity.elastic;
  Endpoint self;
  self.host = identity.host;
  self.pid = ::getpid();
  self.worker = identity.worker;
  plan.ranks.push_back(std::move(self));
  plan.host_of.push_back(0);
  formation.key = identity.key;
  const SegmentLayout layout = layout_for(settings, 1);
  auto segment = create_segment(layout, plan.epoch, 0, take_prepared(reserve, layout));
  // No peer maps it, so a sandbox that refuses shared memory refuses nothing that this job needs.
  if (!segment.ok()) segment = Segment::create_private(layout, plan.epoch, 0);
  if (!segment.ok()) return segment.status();
  formation.segment = std::move(segment).value();
  auto doorbell = make_doorbell();
  if (!doorbell.ok()) return doorbell.status();
  formation.doorbell = std::move(doorbell).value();
  return formation;
}

}  // namespace

Result<Formation> form_epoch(const Identity& identity, Store* store, const Settings& settings, Deadline deadline,
                             const FormOptions& options) {
  if (identity.size < 1 || identity.rank < 0 || identity.rank >= identity.size) {
    return Status(Code::kInvalidArgument, "rank " + std::to_string(identity.rank) + " of " +
                                              std::to_string(identity.size) +
                                              " is not allowed; ranks go from 0 to size-1");
  }
  if (identity.size == 1) return form_alone(identity, settings, options.reserve);
  if (store == nullptr) {
    return Status(Code::kInvalidArgument,
                  "a job of " + std::to_string(identity.size) + " ranks needs a store to meet in");
  }
  return Forming(identity, *store, settings, deadline, options).run();
}

}  // namespace rueda::core
