#pragma once

namespace rueda::core::launcher {

/// What `hvdrun --agent` does on each host: turns this process into the guard, a subreaper that only waits, and starts
/// its one child, the agent, which speaks with hvdrun over our stdin and stdout. Whichever of the two dies first, the
/// other ends everything below it: ranks, their children, and processes that left their session. Blocks. Returns the
/// exit status for the process.
int run_guard();

}  // namespace rueda::core::launcher
