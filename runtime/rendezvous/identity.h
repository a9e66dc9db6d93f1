#pragma once
#include <optional>
#include <string>

#include "runtime/base/environment.h"
#include "runtime/rendezvous/epoch_plan.h"
#include "runtime/store/job_key.h"

namespace rueda::core {

/// Who this process is in the job, from options, hvdrun's environment or another launcher's.
struct Identity {
  int rank = 0;
  int size = 1;
  int local_size = 0;  ///< ranks on this host, as the launcher says; 0: it does not say
  std::string host;    ///< the launcher's name, else gethostname
  std::string job = "job";
  JobKey key;
  std::string worker;    ///< as in Endpoint
  std::string launcher;  ///< who told rank and size: "hvdrun", "Open MPI", ...; empty: nobody
};

/// What init's caller gave; what is empty comes from the environment.
struct IdentityOptions {
  std::optional<int> rank;  ///< with `size`, or neither
  std::optional<int> size;
  std::string host;
  JobKey key;
  /// Rank and size are MPI's to say: an environment that tells half of it is no error.
  bool mpi_says = false;
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
///   hvdrun, by hand  RUEDA_RANK RUEDA_SIZE
///   torchrun         RANK WORLD_SIZE
///   Open MPI         OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE
///   PMI              PMI_RANK PMI_SIZE
///   Slurm            SLURM_PROCID SLURM_NTASKS, only inside a step (SLURM_STEP_ID)
///   Horovod          HOROVOD_RANK HOROVOD_SIZE
///   PMIx             PMIX_RANK: a rank without a size, so an error
///   nothing          a job of one rank
///
/// The job's name is RUEDA_JOB, else the launcher's; the key as in `job_key.h`.
/// kInvalidArgument: one of a pair is missing (which, and of which launcher), a value is not a number in range, or an
/// MPI library says 1 rank where Slurm's step has several tasks: never silently a job of one.
Result<Identity> read_identity(const IdentityOptions& options, const Environment& environment);

/// Where the job's ranks meet, for `identity` of `read_identity`:
///
///   RUEDA_STORE_ADDR         host:port; with RUEDA_STORE=launcher hvdrun serves there, else rank 0 does
///   MASTER_ADDR MASTER_PORT  rank 0 serves at the port after it (torchrun has a store of its own at MASTER_PORT)
///   Slurm                    rank 0 serves on the step's first node, at a port made from job and step
///   all ranks on this host   rank 0 serves on 127.0.0.1, at a port made from the job's name
///
/// A job of one rank: nowhere. kInvalidArgument: nothing says where, and what to set.
Result<StoreChoice> choose_store(const Identity& identity, const Environment& environment);

/// Gives an identity without a key the one that the job uses: where all ranks are on this host and rank 0 serves, that
/// of this user on this host (`user_key`). None is needed for a job of one rank, a store of the caller's own, or where
/// `insecure` is set. kInvalidArgument: there is none, and how to make one. kSystem: as `user_key`.
Status provide_key(Identity& identity, const StoreChoice& choice, const Settings& settings,
                   const Environment& environment);

/// The same for ranks that meet through a store of init's caller: if torchrun says that all ranks are on this host
/// (LOCAL_WORLD_SIZE is WORLD_SIZE), they use the user's key, and none goes through the store. Returns kSystem as
/// `user_key` does.
Status provide_key_beside_store(Identity& identity, const Settings& settings, const Environment& environment);

}  // namespace rueda::core
