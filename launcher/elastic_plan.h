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

/// Returns why the command line gives flags of elastic jobs and is none; empty if it does not.
std::string misplaced_elastic_flags(const ElasticArguments& arguments);

}  // namespace rueda::core::launcher
