// The floating-point mode where only the C standard can set it: the rounding direction.
#include <cfenv>

#include "runtime/base/float_mode.h"

namespace rueda::core {

/// The standard has no access to the handling of denormals, so it stays as the thread has it.
FloatMode::FloatMode() : saved_(static_cast<uint32_t>(std::fegetround())) { std::fesetround(FE_TONEAREST); }

FloatMode::~FloatMode() { std::fesetround(static_cast<int>(saved_)); }

}  // namespace rueda::core
