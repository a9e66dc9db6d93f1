// Which operator is defined for which element type, and what to use instead. Checked when a call is enqueued, so that
// the kernels need not be able to fail.
#include "runtime/base/reduction.h"

namespace rueda::core {

std::string why_undefined(ReduceOp op, Dtype dtype) {
  if (dtype == Dtype::kOpaque) {
    return std::string("opaque elements can be moved, not reduced: ") + name_of(op) +
           " needs a dtype that says what they are";
  }
  if (op == ReduceOp::kAdasum && !is_float(dtype)) {
    return std::string("adasum weighs gradients, which are floats; the tensor is ") + name_of(dtype);
  }
  if (op == ReduceOp::kAverage && dtype == Dtype::kBool) {
    return "an average of bool is not defined; use sum (or) or product (and)";
  }
  if ((op == ReduceOp::kMin || op == ReduceOp::kMax) && is_complex(dtype)) {
    return std::string("complex numbers have no order: ") + name_of(op) + " of " + name_of(dtype) +
           " is not defined; sum, average and product are";
  }
  if (is_bitwise(op) && is_float(part_of(dtype))) {
    return std::string(name_of(op)) + " works on the bits of integers and bool; the tensor is " + name_of(dtype);
  }
  return {};
}

}  // namespace rueda::core
