// Finds out which rank this process is. Launchers say it in environment variables of their own, so a table has one line
// for each launcher, in order of trust; the first launcher with a variable that is set decides.
//
// The danger is a process that takes itself for a job of one although it is not: it would train alone and report
// success. So half of a pair, leftovers of a launcher without a rank, and two launchers that disagree are errors, never
// defaults.
#include "runtime/rendezvous/identity.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "runtime/base/random.h"
#include "runtime/rendezvous/node_list.h"
#include "runtime/store/job_key.h"

namespace rueda::core {
namespace {

constexpr int kMaxSize = 1 << 20;
constexpr size_t kMaxJobBytes = 128;

/// The variables in which one launcher says which rank a process is. An empty name means that it does not say.
struct Launcher {
  const char* name;
  const char* only_with;  ///< the variables count only if this one is set
  const char* rank;
  const char* size;
  const char* instead_of_size;  ///< says the size if `size` is not set
  const char* local_size;
  const char* job;
  const char* at_work;  ///< set if the launcher itself has set the others; empty if no one else sets them
};
constexpr Launcher kLaunchers[] = {
    {"hvdrun", "", "RUEDA_RANK", "RUEDA_SIZE", "", "RUEDA_LOCAL_SIZE", "", "RUEDA_JOB_KEY_FD"},
    {"torchrun", "", "RANK", "WORLD_SIZE", "", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RUN_ID"},
    {"Open MPI", "", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE",
     ""},
    {"PMI", "", "PMI_RANK", "PMI_SIZE", "", "MPI_LOCALNRANKS", "PMI_JOBID", ""},
    // SLURM_NTASKS counts the job's tasks; a step may have fewer.
    {"Slurm", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "", "SLURM_JOB_ID", ""},
    {"Horovod", "", "HOROVOD_RANK", "HOROVOD_SIZE", "", "HOROVOD_LOCAL_SIZE", "", "HOROVOD_GLOO_RENDEZVOUS_ADDR"},
};

/// A variable of use only to a rank: if it is set and no variable says which rank this is, something was forgotten.
/// `alone` is a value that a job of one rank may have.
struct OnlyForRanks {
  const char* variable;
  const char* missing;  ///< the variables that should say the rank
  std::string_view alone = {};
};
constexpr const char* kOurPair = "RUEDA_RANK and RUEDA_SIZE";
constexpr const char* kHorovodPair = "HOROVOD_RANK and HOROVOD_SIZE";
constexpr const char* kMpiPair = "OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE";
constexpr OnlyForRanks kOnlyForRanks[] = {
    {"RUEDA_STORE_ADDR", kOurPair},
    {"RUEDA_LOCAL_RANK", kOurPair},
    {"RUEDA_LOCAL_SIZE", kOurPair},
    {"RUEDA_CROSS_RANK", kOurPair},
    {"RUEDA_CROSS_SIZE", kOurPair},
    {"HOROVOD_LOCAL_RANK", kHorovodPair},
    {"HOROVOD_LOCAL_SIZE", kHorovodPair},
    {"HOROVOD_CROSS_RANK", kHorovodPair},
    {"HOROVOD_CROSS_SIZE", kHorovodPair},
    {"HOROVOD_GLOO_RENDEZVOUS_ADDR", kHorovodPair},
    {"OMPI_COMM_WORLD_LOCAL_RANK", kMpiPair},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", kMpiPair},
    {"LOCAL_RANK", "RANK and WORLD_SIZE", "0"},
    {"LOCAL_WORLD_SIZE", "RANK and WORLD_SIZE", "1"},
    {"PMI_FD", "PMI_RANK and PMI_SIZE"},
};

/// Returns the value of a launcher's variable; empty if the launcher has no such variable or it is not set.
std::optional<std::string> look_up(const Environment& environment, const char* variable) {
  return *variable == '\0' ? std::nullopt : environment(variable);
}

const char* size_variable(const Launcher& launcher, const Environment& environment) {
  return *launcher.instead_of_size == '\0' || environment(launcher.size) ? launcher.size : launcher.instead_of_size;
}

Result<int> read_number(const std::string& variable, const std::string& text, int least, int most) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    return Status(Code::kInvalidArgument, variable + ": \"" + text +
                                              "\" is not allowed; allowed: a whole number from " +
                                              std::to_string(least) + " to " + std::to_string(most));
  }
  return value;
}

/// Reads rank and size from the variables of one launcher; at least one of them is set.
Status read_rank(const Launcher& launcher, const Environment& environment, Identity& identity) {
  const char* of_size = size_variable(launcher, environment);
  const auto rank = look_up(environment, launcher.rank);
  const auto size = look_up(environment, of_size);
  if (!rank && !size) {
    return {Code::kInvalidArgument, std::string(launcher.rank) + " and " + launcher.size + " are not set, but " +
                                        launcher.only_with + " (of " + launcher.name + ") is"};
  }
  if (!rank || !size) {
    return {Code::kInvalidArgument, std::string(rank ? of_size : launcher.rank) + " is not set, but " +
                                        (rank ? launcher.rank : of_size) + " (of " + launcher.name + ") is"};
  }
  const auto size_number = read_number(of_size, *size, 1, kMaxSize);
  if (!size_number.ok()) return size_number.status();
  const auto rank_number = read_number(launcher.rank, *rank, 0, size_number.value() - 1);
  if (!rank_number.ok()) return rank_number.status();
  identity.launcher = launcher.name;
  identity.rank = rank_number.value();
  identity.size = size_number.value();
  if (const auto local = look_up(environment, launcher.local_size)) {
    const auto local_number = read_number(launcher.local_size, *local, 1, identity.size);
    if (!local_number.ok()) return local_number.status();
    identity.local_size = local_number.value();
  }
  if (const auto job = look_up(environment, launcher.job)) identity.job = *job;
  return {};
}

/// Without the plug-in that an MPI library needs, srun starts N programs that each take themselves for a job of one
/// rank.
Status check_against_slurm(const Launcher& launcher, const Environment& environment, const Identity& identity) {
  const auto tasks = environment("SLURM_STEP_NUM_TASKS");
  const bool mpi = std::string_view(launcher.name) == "Open MPI" || std::string_view(launcher.name) == "PMI";
  if (!mpi || identity.size != 1 || !environment("SLURM_STEP_ID") || !tasks || *tasks == "1") return {};
  return {Code::kInvalidArgument, std::string(launcher.size) + " (of " + launcher.name +
                                      ") says that the job has 1 rank, SLURM_STEP_NUM_TASKS that its step has " +
                                      *tasks + ": start it with srun --mpi=pmix, or unset " + launcher.rank + " and " +
                                      launcher.size};
}

/// Leftover variables, such as those of a container image, may say that the job has one rank and so hide the variables
/// of the launcher at work.
Status check_against_others(const Launcher& launcher, const Environment& environment, const Identity& identity) {
  if (identity.size != 1 || *launcher.at_work == '\0' || environment(launcher.at_work)) return {};
  for (const Launcher& other : kLaunchers) {
    const bool runs = *other.at_work == '\0' && (*other.only_with == '\0' || environment(other.only_with));
    const char* of_size = size_variable(other, environment);
    const auto size = look_up(environment, of_size);
    if (!runs || !size || !look_up(environment, other.rank)) continue;
    const auto number = read_number(of_size, *size, 1, kMaxSize);
    if (!number.ok() || number.value() == 1) continue;
    return {Code::kInvalidArgument, std::string(launcher.size) + " (of " + launcher.name +
                                        ") says that the job has 1 rank, " + of_size + " (of " + other.name +
                                        ") that it has " + *size + ": unset " + launcher.rank + " and " +
                                        launcher.size + ", or those of " + other.name};
  }
  return {};
}

/// Returns the number of ranks on this node of a Slurm step; 0 if unknown.
int slurm_local_size(const Environment& environment) {
  const auto counts = expand_counts(environment("SLURM_STEP_TASKS_PER_NODE").value_or(""));
  const auto node = read_number("SLURM_NODEID", environment("SLURM_NODEID").value_or(""), 0, kMaxSize);
  if (!counts.ok() || !node.ok() || static_cast<size_t>(node.value()) >= counts.value().size()) return 0;
  return counts.value()[static_cast<size_t>(node.value())];
}

Status read_launcher(const IdentityOptions& options, const Environment& environment, Identity& identity) {
  for (const Launcher& launcher : kLaunchers) {
    const bool of_slurm = *launcher.only_with != '\0';
    if (of_slurm && !environment(launcher.only_with)) continue;
    if (of_slurm || look_up(environment, launcher.rank) || look_up(environment, launcher.size)) {
      RUEDA_RETURN_IF_ERROR(read_rank(launcher, environment, identity));
      // Slurm gives the counts of all nodes in one list instead of a number for this node.
      if (of_slurm) identity.local_size = slurm_local_size(environment);
      RUEDA_RETURN_IF_ERROR(check_against_others(launcher, environment, identity));
      return check_against_slurm(launcher, environment, identity);
    }
  }
  if (options.mpi_says) return {};
  // An MPI library that was initialised without a launcher sets these variables itself.
  const bool alone = environment("OMPI_MCA_ess") == "singleton";
  for (const char* variable : {"PMIX_RANK", "PMIX_NAMESPACE"}) {
    if (alone || !environment(variable)) continue;
    return {Code::kInvalidArgument, std::string(variable) +
                                        " is set, but nothing says the size of the job; set RUEDA_CONTROLLER=mpi to "
                                        "ask MPI, or RUEDA_RANK and RUEDA_SIZE"};
  }
  for (const OnlyForRanks& only : kOnlyForRanks) {
    const auto value = environment(only.variable);
    if (!value || *value == only.alone) continue;
    return {Code::kInvalidArgument, std::string(only.missing) + " are not set, but " + only.variable + " is"};
  }
  for (const char* variable :
       {"RUEDA_RANK", "RUEDA_SIZE", "RANK", "WORLD_SIZE"}) {  // a script may have exported a variable it never set
    if (environment.all().count(variable) == 0) continue;
    return {Code::kInvalidArgument, std::string(variable) + " is set but empty; unset it for a job of one rank"};
  }
  return {};
}

std::string host_name(const IdentityOptions& options, const Environment& environment) {
  if (!options.host.empty()) return options.host;
  if (const auto given = environment("RUEDA_HOSTNAME")) return *given;
  char name[256] = "";
  if (::gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

/// A job's name becomes part of the store's keys and the TLS identity. A name that does not fit there is an error.
Status check_job(const std::string& job) {
  const bool fits = std::all_of(job.begin(), job.end(), [](char c) { return c > ' ' && c <= '~' && c != '/'; });
  if (!job.empty() && job.size() <= kMaxJobBytes && fits) return {};
  return {
      Code::kInvalidArgument,
      "the job's name \"" + job + "\" is not allowed; allowed in RUEDA_JOB: 1 to 128 printable characters without /"};
}

Status check_options(const IdentityOptions& options) {
  if (options.rank.has_value() != options.size.has_value()) {
    return {Code::kInvalidArgument, "options: give rank and size together, or neither"};
  }
  if (!options.rank) return {};
  if (*options.size < 1 || *options.size > kMaxSize || *options.rank < 0 || *options.rank >= *options.size) {
    return {Code::kInvalidArgument,
            "options: rank " + std::to_string(*options.rank) + " of " + std::to_string(*options.size) +
                " is not allowed; ranks go from 0 to size-1, sizes from 1 to " + std::to_string(kMaxSize)};
  }
  return {};
}

/// The worker's name lasts as long as the process, whatever sessions it has.
Result<std::string> process_worker() {
  static const Result<std::string> worker = random_name();
  return worker;
}

}  // namespace

Result<Identity> read_identity(const IdentityOptions& options, const Environment& environment) {
  Identity identity;
  RUEDA_RETURN_IF_ERROR(check_options(options));
  if (options.rank) {
    identity.rank = *options.rank;
    identity.size = *options.size;
  } else {
    RUEDA_RETURN_IF_ERROR(read_launcher(options, environment, identity));
  }
  if (const auto job = environment("RUEDA_JOB")) identity.job = *job;
  RUEDA_RETURN_IF_ERROR(check_job(identity.job));
  identity.host = host_name(options, environment);
  auto worker = process_worker();
  if (!worker.ok()) return worker.status();
  identity.worker = std::move(worker).value();
  auto key = options.key.present ? Result<JobKey>(options.key) : read_job_key(environment);
  if (!key.ok()) return key.status();
  identity.key = key.value();
  return identity;
}

}  // namespace rueda::core
