// Facts about element types, operators and codecs. Kinds of operation have their table in the header, for use in
// constant expressions.
#include "runtime/base/dtype.h"

#include <array>

namespace rueda::core {
namespace {

constexpr std::array<const char*, kDtypeCount> kDtypeNames = {
    "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64", "bool", "c64", "c128", "opaque"};

constexpr bool kinds_are_in_order() {
  for (int number = 0; number < kOpKindCount; ++number) {
    if (static_cast<int>(kOpKinds[number].kind) != number) return false;
  }
  return true;
}
static_assert(kinds_are_in_order(), "a kind is found by its number");

}  // namespace

const char* name_of(Dtype dtype) { return valid(dtype) ? kDtypeNames[static_cast<size_t>(dtype)] : "?"; }

const char* name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kAverage: return "average";
    case ReduceOp::kSum: return "sum";
    case ReduceOp::kAdasum: return "adasum";
    case ReduceOp::kMin: return "min";
    case ReduceOp::kMax: return "max";
    case ReduceOp::kProduct: return "product";
    case ReduceOp::kBand: return "band";
    case ReduceOp::kBor: return "bor";
    case ReduceOp::kBxor: return "bxor";
  }
  return "?";
}

const char* name_of(CodecId codec) {
  switch (codec) {
    case CodecId::kNone: return "none";
    case CodecId::kFp16: return "fp16";
    case CodecId::kBf16: return "bf16";
  }
  return "?";
}

}  // namespace rueda::core
