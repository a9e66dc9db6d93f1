#pragma once
#include <string>
#include <vector>

#include "launcher/arguments.h"
#include "launcher/hosts.h"
#include "runtime/base/environment.h"

namespace rueda::core::launcher {

/// Turns the flags of an elastic job into its rules. `hosts` are those of the command line or the allocation; empty if
/// a script lists them. Returns kInvalidArgument with a sentence if the flags contradict each other or the hosts have
/// fewer slots than -np. Pure.
Result<MembershipRules> plan_membership(const Arguments& arguments, const std::vector<HostSlots>& hosts,
                                        const Environment& environment);

/// Returns an error sentence if the command line has flags of elastic jobs but the job is not elastic; else empty.
std::string misplaced_elastic_flags(const ElasticArguments& arguments);

}  // namespace rueda::core::launcher
