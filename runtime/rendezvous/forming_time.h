#pragma once
#include <chrono>

namespace rueda::core {

/// Returns for how long the members of a plan of an elastic job try to form it; zero means without a limit. It is
/// longer than `rejoin`, after which hvdrun ends a member that does not come, or goes on without a newcomer. Otherwise
/// the others would fail first.
/// `init`: RUEDA_INIT_TIMEOUT_SECONDS, zero for no limit.
std::chrono::nanoseconds forming_time(std::chrono::duration<double> init, std::chrono::duration<double> rejoin);

}  // namespace rueda::core
