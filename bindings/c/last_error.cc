// The calling thread's last failure. It is replaced by the next failure and cleared by the next success, so that
// rueda_last_error() never speaks of an older call.
#include "bindings/c/last_error.h"

namespace rueda::core {
namespace {

/// Whether the thread's last call failed: a success after a success looks no further.
thread_local bool failed = false;

Status& last() {
  thread_local Status status;
  return status;
}

}  // namespace

int32_t report(const Status& status) {
  if (status.ok() && !failed) return RUEDA_OK;
  failed = !status.ok();
  last() = status;
  return static_cast<int32_t>(status.code());
}

}  // namespace rueda::core

using rueda::core::Code;

int32_t rueda_last_error_code(void) { return static_cast<int32_t>(rueda::core::last().code()); }

const char* rueda_last_error(void) { return rueda::core::last().sentence().c_str(); }

const char* rueda_error_name(int32_t code) { return rueda::core::code_name(static_cast<Code>(code)); }
