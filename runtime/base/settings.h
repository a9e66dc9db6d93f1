#pragma once
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/environment.h"
#include "runtime/base/status.h"

namespace rueda::core {

/// Tri-state of the knobs that are 1, 0 or left to us.
enum class Choice { kAuto, kForce, kForbid };

/// Every knob, with its default. Read once at init; a value, any thread.
struct Settings {
  uint64_t fusion_threshold = 64u << 20;
  uint64_t cache_capacity = 65536;
  Choice hierarchical_allreduce = Choice::kAuto;
  Choice hierarchical_allgather = Choice::kAuto;
  std::string allreduce_algorithm = "auto";
  std::string broadcast_algorithm = "auto";
  std::string controller = "auto";  ///< auto, tcp or mpi
  Choice control_tree = Choice::kAuto;
  std::string cpu_operations = "auto";  ///< auto, tcp or mpi
  CodecId compression = CodecId::kNone;
  bool deterministic = false;
  std::chrono::duration<double> timeout{600};  ///< of one operation; 0: none
  std::chrono::duration<double> init_timeout{30};
  std::chrono::duration<double> peer_timeout{5};
  std::vector<int> thread_affinity;  ///< empty: ours to choose
  int num_lanes = 4;
  int sockets_per_peer = 1;
  bool dynamic_process_sets = true;
  bool caller_progress = true;
  bool insecure = false;
  bool tls_all = false;
  std::string network_interfaces = "auto";
  std::string plugins;        ///< paths of further plug-ins, colons between them
  std::string mpi_plugin;     ///< path of the MPI plug-in; empty: the one beside the library
  uint16_t metrics_port = 0;  ///< of local rank 0, the others' follow; 0: none
  std::string metrics_address = "127.0.0.1";
  std::string dump_file;  ///< where the flight record goes when the epoch ends with an error; empty: the log
  int dump_signal = 0;    ///< that has the flight record dumped; 0: none
  std::string timeline;   ///< file, or DYNAMIC; empty: none until one is started
  bool timeline_mark_cycles = false;
  bool stall_check_disable = false;
  std::chrono::duration<double> stall_check_time{30};
  std::chrono::duration<double> stall_shutdown_time{0};  ///< 0: never
  int log_level = 3;                                     ///< LogLevel
  bool log_hide_time = false;
};

/// Who must hold the same value.
enum class Agreed {
  kNo,         ///< each process its own
  kRankZero,   ///< rank 0's value holds for all, said once
  kMustMatch,  ///< a difference fails init on all ranks
};

/// How a knob looks as a flag of hvdrun.
enum class FlagKind {
  kNone,    ///< the environment only
  kValue,   ///< --flag VALUE
  kMiB,     ///< --flag N, which sets the variable to NMiB
  kSwitch,  ///< --flag sets 1, --no-flag sets 0
  kUnless,  ///< --no-flag sets 1, --flag sets 0
};

/// One row of the settings table: the only place that knows a variable's name.
struct Knob {
  const char* variable;  ///< without the prefix: FUSION_THRESHOLD
  FlagKind flag_kind;
  const char* flag;     ///< without the dashes; empty for kNone
  const char* help;     ///< one line, with the default
  const char* choices;  ///< the words that it can be, blanks between them; empty: more than a few
  Agreed agreed;
  bool horovod;  ///< HOROVOD_<variable> means the same
  Status (*parse)(const std::string& text,
                  Settings& settings);             ///< the sentence names the value and what is allowed only
  std::string (*print)(const Settings& settings);  ///< text that `parse` takes and that gives the same value
};
std::span<const Knob> knobs();
/// The knob whose variable is PREFIX + `variable`; null: there is none.
const Knob* find_knob(std::string_view variable);

/// What stands before a knob's name in the environment.
inline constexpr std::string_view kOurPrefix = "RUEDA_";
inline constexpr std::string_view kHorovodPrefix = "HOROVOD_";

/// Reads all knobs. RUEDA_X wins over HOROVOD_X; an empty value counts as unset. Names that are no knob's are not
/// looked at: `report_unread` of unread_variables.h says which have no effect. kInvalidArgument names variable, value
/// and what is allowed.
Result<Settings> read_settings(const Environment& environment);

/// The agreed part as text (a line `VARIABLE=value` each), to send to rank 0, and its inverse applied over `settings`.
std::string print_agreed(const Settings& settings);
/// kInvalidArgument: an unknown variable or a value that does not parse; `settings` is then unchanged.
Status apply_agreed(const std::string& text, Settings& settings);

struct AgreedValue {
  const Knob* knob;
  std::string value;
};
/// The lines of `print_agreed`, in the table's order. Errors as `apply_agreed`.
Result<std::vector<AgreedValue>> parse_agreed(const std::string& text);

/// Bytes with an optional unit: 1048576, 64MiB, 64M (the same), 64 MB (64,000,000), 1GiB. Shared with hvdrun's flags.
Result<uint64_t> parse_bytes(const std::string& text);

}  // namespace rueda::core
