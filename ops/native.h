#pragma once
#include <span>

#include "ops/algorithm.h"

namespace rueda::core {

/// Algorithms over the collectives of the library behind a lane's channels (`ChannelSet::collectives`). They are in no
/// table of this build: only a plug-in that brings such a library can offer them, under a name of its own. Packing,
/// codecs, scales and averages happen here, the library only sums or copies; 16-bit sums travel in fp32, so that no hop
/// rounds. A batch of some ranks only, or with partial sums that would not be exact, runs `direct` or `broadcast_tree`
/// over the same channels instead.
std::span<const Algorithm> native_algorithms();

}  // namespace rueda::core
