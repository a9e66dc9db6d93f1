// What the host sees of the plug-in: the GPUs as a kind of memory, and NCCL as the engine of that kind. It brings no
// algorithms: what NCCL does not serve goes through the host, on copies (ops/staging.h).
#include "ops/cuda/device_functions.h"
#include "ops/cuda/nccl_engine.h"
#include "runtime/base/build_id.h"

extern "C" __attribute__((visibility("default"))) const rueda_plugin_table* rueda_plugin(const rueda_host* host) {
  if (host->abi != rueda::core::kPluginAbi || host->struct_size != sizeof(rueda_host)) return nullptr;
  static auto* const devices = new rueda::cuda::Devices(*host);  // never ended: threads of the driver may still call
  static const rueda::core::DeviceFunctions functions = rueda::cuda::device_functions(*devices);
  static rueda::cuda::NcclSource source(*devices, functions);
  static const rueda_plugin_table table{sizeof(rueda_plugin_table),
                                        rueda::core::kPluginAbi,
                                        rueda::core::build_id(),
                                        "cuda",
                                        nullptr,
                                        0,
                                        &functions,
                                        1,
                                        nullptr,
                                        &source};
  return &table;
}
