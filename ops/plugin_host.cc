#include "ops/plugin_host.h"

#include <string_view>

#include "ops/algorithm.h"
#include "runtime/base/plugin.h"

namespace rueda::core {
namespace {

const Algorithm* find_host_row(int32_t kind, const char* name) {
  for (const Algorithm& row : algorithms()) {
    if (static_cast<int32_t>(row.kind) == kind && row.name == std::string_view(name)) return &row;
  }
  return nullptr;
}

rueda_host host_with_rows() {
  rueda_host host = bare_host();
  host.find_row = find_host_row;
  return host;
}

}  // namespace

const rueda_host& plugin_host() {
  static const rueda_host host = host_with_rows();
  return host;
}

}  // namespace rueda::core
