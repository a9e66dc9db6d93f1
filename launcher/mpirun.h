#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "launcher/arguments.h"
#include "launcher/environment.h"
#include "launcher/job_plan.h"

namespace rueda::core::launcher {

/// The environment of ranks under mpirun: hvdrun's own without variables that describe a rank, a store or a key of an
/// outer job, plus the settings given as flags. MPI is the controller and carries host tensors unless a setting says
/// otherwise. Pure.
Variables mpi_environment(const Variables& own, const Variables& knobs);

/// Returns the command with which Open MPI's mpirun starts the job of `plan`: hosts and slots in their order, a rank
/// for each slot, no binding. `-x` passes on the variables of `environment` that other hosts need: RUEDA_ and HOROVOD_
/// variables, PATH, LD_LIBRARY_PATH, PYTHONPATH, OMP_NUM_THREADS. Returns kInvalidArgument if mpirun has no equivalent
/// for a flag. Pure.
Result<std::vector<std::string>> mpirun_command(const Arguments& arguments, const JobPlan& plan,
                                                const std::string& mpirun, const Variables& environment);

/// Returns why the mpirun that prints this text for `--version` cannot be used; empty if it is Open MPI's. Pure.
std::string unlike_open_mpi(std::string_view version);

/// Replaces this process by mpirun, which keeps its pid, so signals and exit code are mpirun's. If that fails, prints a
/// sentence on stderr and returns the exit code.
int run_mpirun(const Arguments& arguments, const JobPlan& plan);

}  // namespace rueda::core::launcher
