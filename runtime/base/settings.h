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
#include "runtime/base/store_hint.h"

namespace rueda::core {

/// The value of a knob that is 1, 0 or left to the library.
enum class Choice { kAuto, kForce, kForbid };

/// Every knob, with its default. Read once at init; a value, any thread.
struct Settings {
  uint64_t fusion_threshold = 64u << 20;
  uint64_t cache_capacity = 65536;
  Choice hierarchical_allreduce = Choice::kAuto;
  Choice hierarchical_allgather = Choice::kAuto;
  Choice nccl = Choice::kAuto;
  std::string allreduce_algorithm = "auto";
  std::string broadcast_algorithm = "auto";
  Stores stores = Stores::kByDistance;  ///< kByDistance: chosen
  uint64_t chunk_bytes = 0;             ///< of shared memory, at most; 0: chosen
  Waits waits = Waits::kChosen;         ///< within a batch
  int lane_slots = 0;                   ///< pieces of a batch that are in shared memory at a time, 2 to 4; 0: chosen
  bool autotune = true;
  bool autotune_check = false;
  std::string autotune_log;         ///< file; empty: none
  std::string tune_file;            ///< empty: none
  std::string controller = "auto";  ///< auto, tcp or mpi
  Choice control_tree = Choice::kAuto;
  std::string cpu_operations = "auto";  ///< auto, tcp or mpi
  CodecId compression = CodecId::kNone;
  bool deterministic = false;
  std::chrono::duration<double> timeout{600};  ///< of one operation; 0: none
  std::chrono::duration<double> init_timeout{30};
  std::chrono::duration<double> peer_timeout{5};
  std::vector<int> thread_affinity;  ///< empty: the library chooses
  int num_lanes = 4;
  int sockets_per_peer = 0;  ///< of a data thread; 0: one, and more if trials find them faster
  bool shared_tensors = true;
  uint64_t shared_tensor_bytes = 0;  ///< of each rank; 0: its part of half the machine's memory
  bool dynamic_process_sets = true;
  bool caller_progress = true;
  bool spread_ranks = true;
  bool early_inputs = true;
  bool insecure = false;
  bool tls_all = false;
  std::string network_interfaces = "auto";
  std::string plugins;        ///< paths of further plug-ins, separated by colons
  std::string mpi_plugin;     ///< path of the MPI plug-in; empty: the one beside the library
  std::string cuda_library;   ///< the CUDA driver's; empty: libcuda.so.1. The CUDA plug-in reads the variable itself
  std::string nccl_library;   ///< NCCL's; empty: the one of the process. The CUDA plug-in reads the variable itself
  uint16_t metrics_port = 0;  ///< of local rank 0; others add their local rank; 0: none
  std::string metrics_address = "127.0.0.1";
  std::string dump_file;  ///< for the flight record when the epoch ends with an error; empty: the log
  int dump_signal = 0;    ///< signal on which a rank dumps its flight record; 0: none
  std::string timeline;   ///< file, or DYNAMIC; empty: none until the program starts one
  bool timeline_mark_cycles = false;
  bool stall_check_disable = false;
  std::chrono::duration<double> stall_check_time{30};
  std::chrono::duration<double> stall_shutdown_time{0};  ///< 0: never
  int log_level = 3;                                     ///< LogLevel
  bool log_hide_time = false;
};

/// Which ranks must have the same value of a knob.
enum class Agreed {
  kNo,         ///< each process has its own
  kRankZero,   ///< rank 0's value holds for all
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

/// One entry of the settings table, which alone knows a variable's name.
struct Knob {
  const char* variable;  ///< without the prefix: FUSION_THRESHOLD
  FlagKind flag_kind;
  const char* flag;     ///< without the dashes; empty for kNone
  const char* help;     ///< one line, with the default
  const char* choices;  ///< the possible words, separated by blanks; empty if there are more than a few
  Agreed agreed;
  const char* horovod;  ///< what means the same behind HOROVOD_; empty if there is no such variable
  Status (*parse)(const std::string& text,
                  Settings& settings);             ///< an error names the value and what is allowed, not the variable
  std::string (*print)(const Settings& settings);  ///< text that `parse` takes and that gives the same value
};
std::span<const Knob> knobs();
/// Returns the knob whose variable is PREFIX + `variable`, or null if there is none.
const Knob* find_knob(std::string_view variable);

/// Prefixes of a knob's name in the environment.
inline constexpr std::string_view kOurPrefix = "RUEDA_";
inline constexpr std::string_view kHorovodPrefix = "HOROVOD_";

/// Reads all knobs. RUEDA_X wins over HOROVOD_X; an empty value counts as unset. Other names are ignored here:
/// `report_unread` of unread_variables.h says which have no effect. Returns kInvalidArgument, with the variable, its
/// value and what is allowed, if a value does not parse.
Result<Settings> read_settings(const Environment& environment);

/// Returns the agreed part as text, a line `VARIABLE=value` for each knob.
std::string print_agreed(const Settings& settings);
/// Sets the values of such a text in `settings`. Returns kInvalidArgument, with `settings` unchanged, if a variable is
/// unknown or a value does not parse.
Status apply_agreed(const std::string& text, Settings& settings);

struct AgreedValue {
  const Knob* knob;
  std::string value;
};
/// Returns the lines of such a text, in its order. Errors like `apply_agreed`.
Result<std::vector<AgreedValue>> parse_agreed(const std::string& text);

/// Bytes with an optional unit: 1048576, 64MiB, 64M (the same), 64 MB (64,000,000), 1GiB. Shared with hvdrun's flags.
Result<uint64_t> parse_bytes(const std::string& text);

}  // namespace rueda::core
