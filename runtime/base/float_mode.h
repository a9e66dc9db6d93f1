#pragma once
#include <cstdint>

namespace rueda::core {

/// While it lives, this thread computes as the language starts out: round to nearest, denormals kept, no traps. Then
/// the thread's own mode is back, with the exception flags it had. A caller that runs the engine's turn may have chosen
/// another mode (frameworks flush denormals), and a new thread inherits its maker's; neither may show in a result.
/// Costs a few nanoseconds; lives on the stack of one thread.
class FloatMode {
 public:
  FloatMode();
  ~FloatMode();
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
  uint32_t saved_ = 0;
};

}  // namespace rueda::core
