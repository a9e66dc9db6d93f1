#include <cfenv>

#include "runtime/base/float_mode.h"

namespace rueda::core {

/// Portably only the rounding can be saved in a word; whether denormals are kept is then the thread's own affair.
FloatMode::FloatMode() : saved_(static_cast<uint32_t>(std::fegetround())) { std::fesetround(FE_TONEAREST); }

FloatMode::~FloatMode() { std::fesetround(static_cast<int>(saved_)); }

}  // namespace rueda::core
