#pragma once
#include <memory>

#include "bindings/c/session.h"

namespace rueda::core {

/// Connects to hvdrun, joins the first plan that has `worker`, and starts the engine. Blocks. `parts` without sets,
/// which `options` has. `connected_by`: the deadline for hvdrun's answers. Errors as rueda_init says.
Result<std::unique_ptr<rueda_session>> open_elastic_session(const rueda_init_options& options, int64_t worker,
                                                            ElasticJob::Parts parts, const Environment& environment,
                                                            Deadline connected_by);

/// Ends the engine of the session, joins the next plan and starts another engine in the same session. Blocks until
/// then. Errors as rueda_reset says.
Status reset_session(rueda_session& session, Deadline deadline);

}  // namespace rueda::core
