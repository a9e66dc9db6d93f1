#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "launcher/arguments.h"
#include "launcher/environment.h"
#include "launcher/job_plan.h"

namespace rueda::core::launcher {

/// What ranks under mpirun get: hvdrun's own environment without what describes a rank, a store or a key of an outer
/// job, the knobs given as flags, and MPI as controller and for host tensors where nobody said otherwise. Pure.
Variables mpi_environment(const Variables& own, const Variables& knobs);

/// The words of Open MPI's mpirun that start the job of `plan`: hosts and slots in their order, no binding, a rank for
/// each slot, and of `environment` what other hosts have to be told: RUEDA_ and HOROVOD_ variables, PATH,
/// LD_LIBRARY_PATH, PYTHONPATH. kInvalidArgument: a flag that mpirun has no word for. Pure.
Result<std::vector<std::string>> mpirun_command(const Arguments& arguments, const JobPlan& plan,
                                                const std::string& mpirun, const Variables& environment);

/// Why the mpirun that answers `--version` like this cannot be used; empty: it is Open MPI's. Pure.
std::string unlike_open_mpi(std::string_view version);

/// Becomes that mpirun, which then has hvdrun's place, signals and exit code. Returns an exit code only where that
/// cannot be, after a sentence on stderr.
int run_mpirun(const Arguments& arguments, const JobPlan& plan);

}  // namespace rueda::core::launcher
