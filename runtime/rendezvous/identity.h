#pragma once
#include <optional>
#include <string>

#include "runtime/base/environment.h"
#include "runtime/rendezvous/epoch_plan.h"
#include "runtime/store/job_key.h"

namespace rueda::core {

/// The rank and job of this process, from options or a launcher's environment. A value.
struct Identity {
  int rank = 0;
  int size = 1;
  int local_size = 0;  ///< ranks on this host; 0 if the launcher does not say
  std::string host;    ///< the launcher's name, else gethostname
  std::string job = "job";
  JobKey key;
  std::string worker;        ///< as in Endpoint
  std::string launcher;      ///< what gave rank and size: "hvdrun", "Open MPI", ...; empty if options or defaults did
  ElasticPlan elastic = {};  ///< in an elastic job, once a plan has this worker
};

/// What init's caller gave. The environment gives what is empty here.
struct IdentityOptions {
  std::optional<int> rank;  ///< together with `size`, or neither
  std::optional<int> size;
  std::string host;
  JobKey key;
  /// MPI gives rank and size, so an incomplete environment is not an error.
  bool mpi_says = false;
};

/// Which process serves the store in which the ranks of this job meet.
enum class StoreKind {
  kNone,      ///< none is needed for a job of one rank, or init's caller brings one
  kLauncher,  ///< hvdrun serves at `address`
  kRankZero,  ///< rank 0 serves at `address`
};

struct StoreChoice {
  StoreKind kind = StoreKind::kNone;
  std::string address;  ///< host:port
};

/// Reads rank and size from the first of these that is set:
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
/// Returns kInvalidArgument if one of a pair is missing (the sentence names it and its launcher), if a value is not a
/// number in range, or if one launcher says 1 rank and another says more. So a misconfigured rank never silently
/// becomes a job of one.
Result<Identity> read_identity(const IdentityOptions& options, const Environment& environment);

/// Chooses where the job's ranks meet; `identity` comes from `read_identity`:
///
///   RUEDA_STORE_ADDR         host:port; with RUEDA_STORE=launcher hvdrun serves there, else rank 0 does
///   MASTER_ADDR MASTER_PORT  rank 0 serves at the port after it (torchrun has a store of its own at MASTER_PORT)
///   Slurm                    rank 0 serves on the step's first node, at a port made from job and step
///   all ranks on this host   rank 0 serves on 127.0.0.1, at a port made from the job's name
///
/// A job of one rank needs no store. Returns kInvalidArgument if nothing says where; the sentence says what to set.
Result<StoreChoice> choose_store(const Identity& identity, const Environment& environment);

/// Returns true if only processes of this host can join.
bool all_here(const Identity& identity, const StoreChoice& choice);

/// Gives an identity without a key the job's key: if all ranks are on this host and rank 0 serves, this user's key of
/// this host (`user_key`). A job of one rank, a store of the caller's own and `insecure` need none. Returns
/// kInvalidArgument if a key is needed and there is none; the sentence says how to make one. Returns kSystem as
/// `user_key`.
Status provide_key(Identity& identity, const StoreChoice& choice, const Settings& settings,
                   const Environment& environment);

/// The same for ranks that meet through a store of init's caller: if torchrun says that all ranks are on this host
/// (LOCAL_WORLD_SIZE is WORLD_SIZE), they use the user's key, and none goes through the store. Returns kSystem as
/// `user_key` does.
Status provide_key_beside_store(Identity& identity, const Settings& settings, const Environment& environment);

}  // namespace rueda::core
