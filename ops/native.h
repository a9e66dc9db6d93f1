#pragma once
#include <span>

#include "ops/algorithm.h"

namespace rueda::core {

/// Rows over the collectives of the library whose channels a lane has (`ChannelSet::collectives`): in no table, since
/// only a plug-in that brings such a library can serve them, under a name of its own. Packing, codecs, scales and
/// averages are done here; 16-bit sums travel in fp32, so that no hop rounds. Batches of some ranks only, and partial
/// sums that would not be exact, go the way of `direct` and `broadcast_tree` over the same channels.
std::span<const Algorithm> native_rows();

}  // namespace rueda::core
