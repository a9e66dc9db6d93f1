// Prints the settings table of the guide: build/release/bin/print_settings > docs/guide/settings.md
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

constexpr char kHead[] =
    "# Settings\n\n"
    "Read from the environment by `rueda_init`. `RUEDA_X` wins over `HOROVOD_X`, which is accepted where the last "
    "column says so. A value that\n"
    "does not parse is an error that names variable, value and what is allowed; a `RUEDA_` variable that nobody reads "
    "is a warning with the\n"
    "closest name that exists. In brackets: the default. \"Value on a rank\" says whose value holds where ranks "
    "differ.\n\n"
    "| variable | flag of hvdrun | meaning | value on a rank | `HOROVOD_` |\n"
    "|---|---|---|---|---|\n";

constexpr char kTail[] =
    "\nWho a process is and where its job meets is told by hvdrun, or by hand:\n\n"
    "| variable | meaning |\n"
    "|---|---|\n"
    "| `RUEDA_RANK`, `RUEDA_SIZE` | this rank and how many there are; both or neither |\n"
    "| `RUEDA_LOCAL_SIZE` | ranks on this host |\n"
    "| `RUEDA_HOSTNAME` | ranks with the same name try to share memory |\n"
    "| `RUEDA_STORE_ADDR` | host:port where ranks meet; rank 0 serves it unless hvdrun does |\n"
    "| `RUEDA_STORE` | who serves there: `rank0`, or `launcher`, which hvdrun sets (rank0) |\n"
    "| `RUEDA_JOB` | the job's name, for several jobs started by hand on one host |\n"
    "| `RUEDA_JOB_KEY_FD`, `RUEDA_JOB_KEY_FILE` | where the job's key is read from; the file is this user's and nobody "
    "else may read it |\n"
    "\n"
    "For scripts of other worlds hvdrun sets the same places as `HOROVOD_RANK`, `HOROVOD_SIZE` and so on, and as "
    "`RANK`, "
    "`WORLD_SIZE`, `LOCAL_RANK` and\n"
    "`LOCAL_WORLD_SIZE`. `MASTER_ADDR` is the host of rank 0 and `MASTER_PORT` a port below 32000 that the job's name "
    "chooses; what is set already stays.\n";

}  // namespace

int main() {
  std::fputs(kHead, stdout);
  for (const Knob& knob : rueda::core::knobs()) {
    std::printf("| `RUEDA_%s` | %s | %s | %s | %s |\n", knob.variable, flag(knob).c_str(), knob.help,
                agreed(knob.agreed), knob.horovod ? "yes" : "");
  }
  std::fputs(kTail, stdout);
}
