// Which operator is defined for which element type, and what to use instead. Checked when a call is enqueued, so that
// the kernels need not be able to fail. Each enqueue asks whether it is; only a refusal needs the sentence.
#include "runtime/base/reduction.h"

namespace rueda::core {
namespace {

enum class Undefined { kNone, kOpaque, kNoGradients, kAverageOfBool, kNoOrder, kNoBits };

Undefined undefined_as(ReduceOp op, Dtype dtype) {
  if (dtype == Dtype::kOpaque) return Undefined::kOpaque;
  if (op == ReduceOp::kAdasum && !is_float(dtype)) return Undefined::kNoGradients;
  if (op == ReduceOp::kAverage && dtype == Dtype::kBool) return Undefined::kAverageOfBool;
  if ((op == ReduceOp::kMin || op == ReduceOp::kMax) && is_complex(dtype)) return Undefined::kNoOrder;
  if (is_bitwise(op) && is_float(part_of(dtype))) return Undefined::kNoBits;
  return Undefined::kNone;
}

}  // namespace

bool is_defined(ReduceOp op, Dtype dtype) { return undefined_as(op, dtype) == Undefined::kNone; }

std::string why_undefined(ReduceOp op, Dtype dtype) {
  switch (undefined_as(op, dtype)) {
    case Undefined::kNone: break;
    case Undefined::kOpaque:
      return std::string("opaque elements can be moved, not reduced: ") + name_of(op) +
             " needs a dtype that says what they are";
    case Undefined::kNoGradients:
      return std::string("adasum weighs gradients, which are floats; the tensor is ") + name_of(dtype);
    case Undefined::kAverageOfBool: return "an average of bool is not defined; use sum (or) or product (and)";
    case Undefined::kNoOrder:
      return std::string("complex numbers have no order: ") + name_of(op) + " of " + name_of(dtype) +
             " is not defined; sum, average and product are";
    case Undefined::kNoBits:
      return std::string(name_of(op)) + " works on the bits of integers and bool; the tensor is " + name_of(dtype);
  }
  return {};
}

}  // namespace rueda::core
