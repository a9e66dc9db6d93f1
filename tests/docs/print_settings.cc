// Prints the guide's page about settings from the table that the library reads, so the page cannot fall behind:
//   build/release/bin/print_settings > docs/guide/settings.md
#include <cstdio>
#include <string>

#include "runtime/base/settings.h"

namespace {

using rueda::core::Agreed;
using rueda::core::FlagKind;
using rueda::core::Knob;

std::string flag(const Knob& knob) {
  const std::string name = std::string("--") + knob.flag;
  switch (knob.flag_kind) {
    case FlagKind::kNone: return "";
    case FlagKind::kValue: return "`" + name + " VALUE`";
    case FlagKind::kMiB: return "`" + name + " N`";
    case FlagKind::kSwitch:
    case FlagKind::kUnless: return "`" + name + "`, `--no-" + knob.flag + "`";
  }
  return "";
}

const char* agreed(Agreed how) {
  switch (how) {
    case Agreed::kNo: return "its own";
    case Agreed::kRankZero: return "rank 0's";
    case Agreed::kMustMatch: return "must be equal";
  }
  return "";
}

std::string horovod(const Knob& knob) {
  const std::string name = knob.horovod;
  if (name.empty()) return "";
  return name == knob.variable ? "yes" : "`HOROVOD_" + name + "`";
}

constexpr char kHead[] =
    "# Settings\n"
    "\n"
    "`rueda_init` reads these settings from the environment. `RUEDA_X` wins over `HOROVOD_X`, which Rueda "
    "accepts if the last column says yes or names it. If a\n"
    "value does not parse, the error names variable, value and what is allowed. Rueda logs a warning for an "
    "unknown `RUEDA_` variable, with the closest\n"
    "name that exists. The default is in brackets. \"Value on a rank\" says which rank's value holds if ranks "
    "differ.\n"
    "\n"
    "| variable | flag of hvdrun | meaning | value on a rank | `HOROVOD_` |\n"
    "|---|---|---|---|---|\n";

constexpr char kTail[] =
    "\n"
    "hvdrun tells a process its rank and where its job meets. You can do so by hand:\n"
    "\n"
    "| variable | meaning |\n"
    "|---|---|\n"
    "| `RUEDA_RANK`, `RUEDA_SIZE` | this rank and the number of ranks; give both or neither |\n"
    "| `RUEDA_LOCAL_SIZE` | number of ranks on this host |\n"
    "| `RUEDA_HOSTNAME` | ranks with the same name try to share memory |\n"
    "| `RUEDA_STORE_ADDR` | host:port of the store, at which ranks meet; rank 0 serves it unless hvdrun does |\n"
    "| `RUEDA_STORE` | which process serves the store: `rank0`, or `launcher`, which hvdrun sets (rank0) |\n"
    "| `RUEDA_JOB` | the job's name, for several jobs started by hand on one host |\n"
    "| `RUEDA_JOB_KEY_FD`, `RUEDA_JOB_KEY_FILE` | the descriptor or file with the job's key; the file must "
    "belong to this user, and no other user may read it |\n"
    "| `RUEDA_ELASTIC`, `RUEDA_WORKER_ID` | 1 in an elastic job (`--min-np`), and the number of the worker |\n"
    "| `RUEDA_REJOIN_TIMEOUT`, `RUEDA_ADMIT` | `--rejoin-timeout` of an elastic job, in seconds, and `--admit` |\n"
    "\n"
    "For scripts of other frameworks hvdrun sets the same values as `HOROVOD_RANK`, `HOROVOD_SIZE` and so on, "
    "also `HOROVOD_HOSTNAME`, and as `RANK`, `WORLD_SIZE`, `LOCAL_RANK`\n"
    "and `LOCAL_WORLD_SIZE`. `MASTER_ADDR` is the host of rank 0, and `MASTER_PORT` a port below 32000 that "
    "follows from the job's name. hvdrun leaves\n"
    "variables that are already set.\n"
    "\n"
    "## Flags and config files of horovodrun\n"
    "\n"
    "hvdrun takes horovodrun's flags. `--num-proc`, `--network-interface`, `--gloo-timeout-seconds`, "
    "`--log-hide-timestamp`, `--log-without-timestamp` and\n"
    "`--log-with-timestamp` are other names of flags above. `--gloo`, `--disable-cache`, `--cycle-time-ms`, the "
    "`--autotune-` flags for samples and\n"
    "models, `--torus-allreduce`, `--num-nccl-streams` and `--mpi-threads-disable` are accepted, and one line says "
    "that they have no meaning here. `--jsrun` and\n"
    "`-m` end hvdrun with a sentence that says what to do instead, and so does `--slots-per-host` without "
    "`--host-discovery-script`.\n"
    "\n"
    "A config file may have horovodrun's sections `params`, `autotune`, `timeline`, `stall_check`, `library_options` "
    "and "
    "`logging`, and names with\n"
    "underscores: `stall_check: {warning_time_seconds: 120}` means `stall-check-warning-time-seconds: 120`.\n";

}  // namespace

int main() {
  std::fputs(kHead, stdout);
  for (const Knob& knob : rueda::core::knobs()) {
    std::printf("| `RUEDA_%s` | %s | %s | %s | %s |\n", knob.variable, flag(knob).c_str(), knob.help,
                agreed(knob.agreed), horovod(knob).c_str());
  }
  std::fputs(kTail, stdout);
}
