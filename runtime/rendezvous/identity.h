#pragma once
#include <optional>
#include <string>

#include "runtime/base/environment.h"
#include "runtime/rendezvous/epoch_plan.h"

namespace rueda::core {

/// Who this process is in the job, from options, hvdrun's environment or another launcher's.
struct Identity {
  int rank = 0;
  int size = 1;
  int local_size = 0;  ///< ranks on this host, as the launcher says; 0: it does not say
  std::string host;    ///< the launcher's name, else gethostname
  std::string job = "job";
  JobKey key;
  std::string worker;  ///< as in Endpoint
};

/// What init's caller gave; what is empty comes from the environment.
struct IdentityOptions {
  std::optional<int> rank;  ///< with `size`, or neither
  std::optional<int> size;
  std::string host;
  JobKey key;
};

/// Where ranks of this job meet, and who serves there.
enum class StoreKind {
  kNone,      ///< a job of one rank needs none; or init's caller brings its own
  kLauncher,  ///< hvdrun serves at `address`
  kRankZero,  ///< rank 0 serves at `address`
};

struct StoreChoice {
  StoreKind kind = StoreKind::kNone;
  std::string address;  ///< host:port
};

/// Read from `environment`, the first that is there:
///
///   hvdrun, by hand  RUEDA_RANK RUEDA_SIZE; RUEDA_STORE_ADDR (RUEDA_STORE=launcher: hvdrun serves, else rank 0 does)
///   torchrun         RANK WORLD_SIZE; MASTER_ADDR MASTER_PORT: rank 0 serves at the port after MASTER_PORT
///   Open MPI         OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE
///   PMI, PMIx        PMI_RANK PMI_SIZE; PMIX_RANK, with the size from Slurm
///   Slurm            only inside a step: SLURM_STEP_ID SLURM_PROCID SLURM_NTASKS
///   nothing          a job of one rank
///
/// kInvalidArgument: one of a pair is missing (which, and of which launcher), or a value is not a number in range:
/// never silently a job of one.
Result<Identity> read_identity(const IdentityOptions& options, const Environment& environment);

/// Where that job's ranks meet. `size` 1: nowhere. kInvalidArgument: nothing says where, and what to set.
Result<StoreChoice> choose_store(const Identity& identity, const Environment& environment);

}  // namespace rueda::core
