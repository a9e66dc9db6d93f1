#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"
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
  std::string controller = "auto";
  std::string cpu_operations = "auto";   ///< auto, tcp or mpi
  CodecId compression = CodecId::kNone;
  bool deterministic = false;
  std::chrono::duration<double> timeout{600};        ///< of one operation; 0: none
  std::chrono::duration<double> init_timeout{30};
  std::chrono::duration<double> peer_timeout{5};
  std::vector<int> thread_affinity;                  ///< empty: ours to choose
  int num_lanes = 4;
  bool caller_progress = true;
  bool insecure = false;
  bool tls_all = false;
  std::string network_interfaces = "auto";
  int log_level = 3;                                 ///< LogLevel
  bool log_hide_time = false;
};

/// Looks up an environment variable; empty optional when unset.
using Environment = std::function<std::optional<std::string>(const std::string&)>;
Environment process_environment();

/// Who must hold the same value.
enum class Agreed {
  kNo,         ///< each process its own
  kRankZero,   ///< rank 0's value holds for all, said once
  kMustMatch,  ///< a difference fails init on all ranks
};

/// One row of the settings table: the only place that knows a variable's name.
struct Knob {
  const char* variable;   ///< without the prefix: FUSION_THRESHOLD
  const char* flag;       ///< hvdrun's, without the dashes; null: none
  const char* help;       ///< one line, with the default
  Agreed agreed;
  bool horovod;           ///< HOROVOD_<variable> means the same
  Status (*parse)(const std::string& text, Settings& settings);  ///< the sentence names the value and the limit only
  std::string (*print)(const Settings& settings);
};
std::span<const Knob> knobs();

/// Reads all knobs. RUEDA_X wins over HOROVOD_X. kInvalidArgument names variable and value. Known HOROVOD_ names without a
/// meaning here are reported once at info.
Result<Settings> read_settings(const Environment& environment);

/// The agreed part as text, to send to rank 0, and its inverse applied over `settings`.
std::string print_agreed(const Settings& settings);
Status apply_agreed(const std::string& text, Settings& settings);

/// Bytes with an optional unit: 1048576, 64MiB, 64 MB, 1GiB. Shared with hvdrun's flags.
Result<uint64_t> parse_bytes(const std::string& text);

}  // namespace rueda::core
