// The floating-point mode of x86 in one register, MXCSR. The constructor writes it only if the mode differs, which
// is rare. The six lowest bits are sticky exception flags and no part of the mode; the destructor brings them back.
#include <xmmintrin.h>

#include "runtime/base/float_mode.h"

namespace rueda::core {
namespace {

constexpr uint32_t kInitial = 0x1f80;  // all exceptions masked, nearest, neither flush-to-zero nor denormals-are-zero
constexpr uint32_t kFlags = 0x3f;

}  // namespace

FloatMode::FloatMode() : saved_(_mm_getcsr()) {
  if ((saved_ & ~kFlags) != kInitial) _mm_setcsr(kInitial);
}

FloatMode::~FloatMode() { _mm_setcsr(saved_); }

}  // namespace rueda::core
