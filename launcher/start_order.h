#pragma once
#include "launcher/arguments.h"
#include "launcher/job.h"
#include "launcher/job_store.h"
#include "launcher/messages.h"

namespace rueda::core::launcher {

/// What the agent of this host is to start; without the ways to the store.
StartOrder start_order(const Arguments& arguments, const JobPlan& plan, const HostShare& share, const JobStore& store);

}  // namespace rueda::core::launcher
