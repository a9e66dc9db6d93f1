#pragma once
#include <vector>

namespace rueda::core::launcher {

/// Returns the signals that hvdrun passes on to the ranks, without those that its parent set to be ignored (nohup, a
/// shell's background job).
std::vector<int> forwarded_signals();

}  // namespace rueda::core::launcher
