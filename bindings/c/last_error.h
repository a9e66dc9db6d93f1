#pragma once
#include <exception>

#include "bindings/c/rueda.h"
#include "runtime/base/shortage.h"
#include "runtime/base/status.h"

namespace rueda::core {

/// Remembers `status` as the calling thread's last result, for rueda_last_error, and returns its code.
int32_t report(const Status& status);

/// Runs the body of an API function and reports its result. No exception passes it.
template <typename Body>
int32_t guarded(Body&& body) noexcept {
  try {
    return report(body());
  } catch (const std::exception& error) {
    return report(failure_of(error));
  } catch (...) {  // a function of the caller's
    return report(Status(Code::kSystem, "an exception of an unknown type (not a std::exception)"));
  }
}

}  // namespace rueda::core
