#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "runtime/agreement/agreement.h"
#include "runtime/agreement/relay.h"

namespace rueda::fuzz {

/// The job of two ranks that agreement is fuzzed in, and what its ranks do there. The recorder runs the whole job and
/// keeps its frames; a fuzzed machine is the same one at the same point of the job, so those frames are good for it.
core::AgreementConfig agreement_config();

/// Rank 0's relay in that job: its own rank is child 0, and a relay with rank 1 is child 1.
core::RelayConfig relay_at_top(const core::AgreementConfig& config);

inline constexpr size_t kStories = 10;
inline constexpr size_t kPhases = 3;
/// What `rank` does in a phase of a story. Each phase is over when its frames have arrived.
void act(size_t story, size_t phase, int rank, core::Participant& participant);

/// An input is one byte, `machine + kMachines * story`, then frames without their epoch, each behind a byte with its
/// length. An empty one stands for a rank without a frame; for a participant its next phase begins there.
enum class Machine : size_t { kArbiter, kParticipant, kRelayedArbiter, kRelay };
inline constexpr size_t kMachines = 4;

/// Runs every story. Returns an input for each machine and story; aborts if a machine refuses a frame.
std::vector<std::vector<std::byte>> recorded_inputs();

}  // namespace rueda::fuzz
