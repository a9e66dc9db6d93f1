#pragma once
#include <string>

#include "runtime/base/status.h"
#include "runtime/store/store.h"

namespace rueda::core {

/// Whether a session whose engine has this status leaves without a failure.
bool ended_well(const Status& end);

/// Tells hvdrun that this rank is leaving. This comes before the goodbye: other ranks that still need this one then
/// fail, and hvdrun must not take that for the first failure.
void note_leaving(Store& store, const std::string& job, int rank);

/// Tells hvdrun that this rank has shut down, or why its epoch had failed before.
void note_end(Store& store, const std::string& job, int rank, const Status& end);

}  // namespace rueda::core
