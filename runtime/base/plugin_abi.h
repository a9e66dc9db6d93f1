#pragma once
#include <cstddef>
#include <cstdint>

namespace rueda::core {
class Abort;
struct Algorithm;
struct DeviceFunctions;
class DeviceEngineSource;
class FabricSource;
}  // namespace rueda::core

/// What a plug-in and its host show each other. A plug-in is a shared library with one C function:
///
///   extern "C" const rueda_plugin_table* rueda_plugin(const rueda_host* host);
///
/// Both structs begin with size, ABI number and build id, which never move. A plug-in belongs to one build: another
/// build id is refused, so what the pointers lead to may be C++ of that build. It links nothing of the host and reaches
/// algorithms, memory, clock, log and abort through the host's table alone. It is never unloaded.
extern "C" {

struct rueda_host {
  size_t struct_size;
  uint32_t abi;
  const char* build_id;
  /// Returns memory aligned to 64 bytes, or null if there is none. `release` takes it back.
  void* (*allocate)(size_t bytes);
  void (*release)(void* memory);
  /// The monotonic clock of every deadline.
  int64_t (*now_nanoseconds)();
  /// `level` as RUEDA_LOG_INFO and so on.
  void (*log)(int32_t level, const char* line);
  /// Returns 1 once the epoch has ended: stop waiting.
  int32_t (*aborted)(const rueda::core::Abort* abort);
  /// Returns an algorithm of the host's own table by kind (OpKind) and name, to run over other channels; null if there
  /// is none. The algorithms that use a library's own collectives are called "native"; the host has none of them.
  const rueda::core::Algorithm* (*find_algorithm)(int32_t kind, const char* name);
  /// out[i] = first[i] (op) second[i] by the host's kernels (Dtype, ReduceOp); `out` may be either. No averages, no
  /// Adasum, nothing that is not defined for the dtype. The pointer is null in a host without algorithms.
  void (*combine)(int32_t dtype, int32_t op, const void* first, const void* second, void* out, int64_t count);
  /// The value of the variable RUEDA_<name> of the process; null if it is unset or empty. Valid until the next call on
  /// this thread.
  const char* (*setting)(const char* name);
  /// The plug-in holds so many bytes more, or fewer if negative; the statistics show the sum as "plugins".
  void (*account)(int64_t bytes);
};

/// Everything in it lives as long as the process.
struct rueda_plugin_table {
  size_t struct_size;
  uint32_t abi;
  const char* build_id;
  const char* name;  ///< "mpi"
  const rueda::core::Algorithm* algorithms;
  size_t algorithm_count;
  const rueda::core::DeviceFunctions* devices;
  size_t device_count;
  rueda::core::FabricSource* fabric;                   ///< null if it has none
  rueda::core::DeviceEngineSource* engines = nullptr;  ///< null if it has none
};

/// Returns null if the plug-in refuses this host.
using rueda_plugin_function = const rueda_plugin_table* (*)(const rueda_host* host);
}

namespace rueda::core {

/// Grows when one of the structs changes.
inline constexpr uint32_t kPluginAbi = 5;

}  // namespace rueda::core
