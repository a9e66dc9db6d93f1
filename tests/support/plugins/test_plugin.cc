// The plug-in that tests load: an algorithm and a device. It links nothing of the library.
#include "runtime/base/log.h"
#include "tests/support/plugins/fake_device_functions.h"
#include "tests/support/plugins/test_star.h"

extern "C" __attribute__((visibility("default"))) const rueda_plugin_table* rueda_plugin(const rueda_host* host) {
  if (host->struct_size != sizeof(rueda_host) || host->abi != rueda::core::kPluginAbi) return nullptr;
  static const rueda::core::Algorithm star = rueda::test::star_algorithm(host);
  static const rueda_plugin_table table{sizeof(rueda_plugin_table),
                                        rueda::core::kPluginAbi,
                                        host->build_id,
                                        "test",
                                        &star,
                                        1,
                                        rueda::test::fake_device_functions(host),
                                        1,
                                        nullptr};
  host->log(static_cast<int32_t>(rueda::core::LogLevel::kDebug), "the test plug-in was asked for its table");
  return &table;
}
