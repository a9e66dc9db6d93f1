#pragma once
#include <cfenv>

namespace rueda::core {

/// Gives the scope the default floating-point mode (round to nearest, denormals kept, no traps) and the caller's back at
/// its end: a turn may run on a thread of the caller's, whose mode must not change the bits of a sum.
class FloatMode {
 public:
  FloatMode() {
    std::fegetenv(&callers_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~FloatMode() { std::fesetenv(&callers_); }
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
  std::fenv_t callers_;
};

}  // namespace rueda::core
