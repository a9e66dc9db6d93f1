// A plug-in that is refused: each build of it has another fault, given by the macros.
#include "runtime/base/plugin_abi.h"

extern "C" __attribute__((visibility("default"))) const rueda_plugin_table* rueda_plugin(const rueda_host* host) {
  static const rueda_plugin_table table{
      RUEDA_TEST_SIZE, RUEDA_TEST_ABI, RUEDA_TEST_BUILD_ID, "refused", nullptr, 0, nullptr, 0, nullptr};
  return RUEDA_TEST_TABLE;
}
