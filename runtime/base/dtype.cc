// Facts about element types, operators and codecs. Kinds of operation have their table in the header, for use in
// constant expressions.
#include "runtime/base/dtype.h"

#include <array>

namespace rueda::core {
namespace {

struct DtypeRow {
  const char* name;
  size_t bytes;
};
constexpr std::array<DtypeRow, kDtypeCount> kDtypes{{{"u8", 1},
                                                     {"i8", 1},
                                                     {"u16", 2},
                                                     {"i16", 2},
                                                     {"u32", 4},
                                                     {"i32", 4},
                                                     {"u64", 8},
                                                     {"i64", 8},
                                                     {"f16", 2},
                                                     {"bf16", 2},
                                                     {"f32", 4},
                                                     {"f64", 8},
                                                     {"bool", 1},
                                                     {"c64", 8},
                                                     {"c128", 16},
                                                     {"opaque", 1}}};

constexpr bool kinds_are_in_order() {
  for (int number = 0; number < kOpKindCount; ++number) {
    if (static_cast<int>(kOpKinds[number].kind) != number) return false;
  }
  return true;
}
static_assert(kinds_are_in_order(), "a kind is found by its number");

}  // namespace

bool valid(Dtype dtype) { return static_cast<int32_t>(dtype) >= 0 && static_cast<int32_t>(dtype) < kDtypeCount; }

size_t size_of(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype)].bytes; }

const char* name_of(Dtype dtype) { return valid(dtype) ? kDtypes[static_cast<size_t>(dtype)].name : "?"; }

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

bool is_float(Dtype dtype) {
  return dtype == Dtype::kF16 || dtype == Dtype::kBf16 || dtype == Dtype::kF32 || dtype == Dtype::kF64;
}

bool is_complex(Dtype dtype) { return dtype == Dtype::kC64 || dtype == Dtype::kC128; }

Dtype part_of(Dtype dtype) {
  if (!is_complex(dtype)) return dtype;
  return dtype == Dtype::kC64 ? Dtype::kF32 : Dtype::kF64;
}

bool is_bitwise(ReduceOp op) { return op == ReduceOp::kBand || op == ReduceOp::kBor || op == ReduceOp::kBxor; }

}  // namespace rueda::core
