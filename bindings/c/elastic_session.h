#pragma once
#include <memory>

#include "bindings/c/session.h"

namespace rueda::core {

/// Connects to hvdrun, joins the first plan that has `worker`, and starts the engine. Blocks. `parts` has no
/// sets; they are in `options`. `connected_by`: the deadline for hvdrun's answers. Returns the errors of rueda_init.
Result<std::unique_ptr<rueda_session>> open_elastic_session(const rueda_init_options& options,
                                                            const WorkerStart& worker, ElasticJob::Parts parts,
                                                            const Environment& environment, Deadline connected_by);

/// Ends the engine of the session, joins the next plan and starts another engine in the same session. Blocks until
/// then. Returns the errors of rueda_reset.
Status reset_session(rueda_session& session, Deadline deadline);

}  // namespace rueda::core
