#pragma once
#include <cstdint>

namespace rueda::core {

/// While it lives, its thread computes in the default mode of C++: round to nearest, keep denormals, no traps. Its
/// destructor brings back the thread's own mode and exception flags. A caller that runs the engine's turn may have
/// chosen another mode (frameworks flush denormals), and a new thread inherits that of its creator; neither may show in
/// a result. Costs a few nanoseconds. Lives on the stack of one thread.
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
