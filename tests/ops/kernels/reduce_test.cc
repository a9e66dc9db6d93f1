#include "ops/kernels/reduce.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "compression/cast.h"
#include "runtime/base/reduction.h"
#include "tests/ops/kernels/reference.h"
#include "tests/support/collective_case.h"
#include "tests/support/scale.h"

using namespace rueda::core;
using rueda::test::elements;
using rueda::test::reduced;

namespace {

using Bytes = std::vector<std::byte>;
using Groups = std::vector<int>;

/// Ways to put brackets around 1 to 5 inputs.
const std::vector<std::vector<Groups>> kBrackets{{},
                                                 {{1}},
                                                 {{2}, {1, 1}},
                                                 {{3}, {1, 2}, {2, 1}},
                                                 {{4}, {2, 2}, {1, 3}, {1, 1, 2}},
                                                 {{5}, {2, 3}, {2, 2, 1}, {1, 3, 1}}};

/// One call of a kernel: inputs and outputs at odd addresses, with bytes behind the outputs that must stay.
class Trial {
 public:
  Trial(Dtype dtype, int inputs, int64_t count, size_t shift) : bytes_(static_cast<size_t>(count) * size_of(dtype)) {
    for (int k = 0; k < inputs; ++k) {
      const Bytes drawn = elements(dtype, count, static_cast<uint64_t>(count * 16 + k));
      Bytes& held = held_.emplace_back(shift + bytes_ + kGuard, kMark);
      std::copy(drawn.begin(), drawn.end(), held.begin() + static_cast<std::ptrdiff_t>(shift));
      inputs_.push_back(held.data() + shift);
    }
    out_.assign(shift + bytes_ + kGuard, kMark);
    also_.assign(shift + bytes_ + kGuard, kMark);
    shift_ = shift;
  }

  std::span<const std::byte* const> inputs() const { return inputs_; }
  std::byte* input(size_t k) { return held_[k].data() + shift_; }
  std::byte* out() { return out_.data() + shift_; }
  std::byte* also() { return also_.data() + shift_; }

  /// "" or where `at` first differs from `expected`, or that bytes behind it changed.
  std::string difference(const std::byte* at, const Bytes& expected) const {
    for (size_t i = 0; i < bytes_; ++i) {
      if (at[i] != expected[i]) return "byte " + std::to_string(i) + " differs";
    }
    for (size_t i = bytes_; i < bytes_ + kGuard; ++i) {
      if (at[i] != kMark) return "byte " + std::to_string(i) + " behind the end was written";
    }
    return "";
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr std::byte kMark{0xa5};
  size_t bytes_;
  size_t shift_ = 0;
  std::vector<Bytes> held_;
  std::vector<const std::byte*> inputs_;
  Bytes out_;
  Bytes also_;
};

std::string describe(Isa isa, const ReduceTask& task, size_t inputs, int64_t count) {
  return std::string(name_of(isa)) + " " + name_of(task.dtype) + " " + name_of(task.op) + " of " +
         std::to_string(inputs) + " in " + std::to_string(task.groups.size()) + " groups, count " +
         std::to_string(count) + ": ";
}

/// Every set on one shape; the stores and the scale vary with the shape. "" or the first failure.
std::string try_sets(ReduceTask task, const Groups& groups, int inputs, int64_t count) {
  constexpr std::array kScales{1.0, 0.5, -3.0, 1e6};
  const auto turn = static_cast<size_t>(count + inputs);
  task.groups = groups;
  task.divisor = inputs;
  task.postscale = kScales[turn % kScales.size()];
  Trial trial(task.dtype, inputs, count, turn % 5 == 0 ? 1 : turn % 5 * size_of(task.dtype));
  const Bytes expected = reduced(task, trial.inputs(), count);
  for (const Isa isa : available_isas()) {
    const StoreHint hint = turn % 2 == 0 ? StoreHint::kPlain : StoreHint::kNonTemporal;
    std::byte* also = turn % 3 == 0 ? nullptr : trial.also();
    std::fill_n(trial.out(), expected.size(), std::byte{});
    reduce(kernels(isa), task, trial.inputs(), trial.out(), hint, also, count);
    std::string failure = trial.difference(trial.out(), expected);
    if (also != nullptr && failure.empty()) failure = trial.difference(also, expected);
    if (!failure.empty()) return describe(isa, task, static_cast<size_t>(inputs), count) + failure;
  }
  return "";
}

std::string try_shapes(const ReduceTask& task, int inputs) {
  std::vector<int64_t> counts{64, 127, 1029};
  for (int64_t count = 0; count <= 33; ++count) counts.push_back(count);
  for (const int64_t count : counts) {
    for (const Groups& groups : kBrackets[static_cast<size_t>(inputs)]) {
      std::string failure = try_sets(task, groups, inputs, count);
      if (!failure.empty()) return failure;
    }
  }
  return "";
}

Bytes cast_to(Dtype from, Dtype to, const std::byte* in, int64_t count) {
  Bytes out(static_cast<size_t>(count) * size_of(to));
  cast(casts(Isa::kGeneric), CastTask{from, to}, in, out.data(), count);
  return out;
}

/// What `task` makes of fp32 inputs that are encoded first and decoded at the end.
Bytes cast_and_reduced(const ReduceTask& task, std::span<const std::byte* const> inputs, int64_t count) {
  std::vector<Bytes> encoded;
  std::vector<const std::byte*> wire;
  for (const std::byte* input : inputs) encoded.push_back(cast_to(Dtype::kF32, task.dtype, input, count));
  for (const Bytes& values : encoded) wire.push_back(values.data());
  return cast_to(task.dtype, Dtype::kF32, reduced(task, wire, count).data(), count);
}

/// The task with the second input and `also` held as fp32, and all else in 16 bits. "" or the first failure.
std::string try_own(const KernelSet& set, ReduceTask task, Trial& trial, const Bytes& expected, int64_t count) {
  std::vector<Bytes> encoded;
  std::vector<const std::byte*> inputs;
  for (const std::byte* input : trial.inputs()) encoded.push_back(cast_to(Dtype::kF32, task.dtype, input, count));
  for (const Bytes& values : encoded) inputs.push_back(values.data());
  inputs[1] = trial.inputs()[1];
  task.held_as_f32 = HeldAsF32::kOwn;
  task.own = 1;
  Bytes out(static_cast<size_t>(count) * size_of(task.dtype));
  reduce(set, task, inputs, out.data(), StoreHint::kNonTemporal, trial.also(), count);
  if (out != cast_to(Dtype::kF32, task.dtype, expected.data(), count)) return "the 16-bit result differs";
  return trial.difference(trial.also(), expected);
}

}  // namespace

TEST_CASE("every kernel set computes what the definition says, to the bit, for each type, op, size and bracket") {
  for (int type = 0; type < kDtypeCount; ++type) {
    for (const ReduceOp op : kAllOps) {
      ReduceTask task;
      task.dtype = static_cast<Dtype>(type);
      task.op = op;
      if (!why_undefined(op, task.dtype).empty()) continue;
      for (int inputs = 1; inputs <= 5; ++inputs) {
        if (!kThorough && (inputs + type + static_cast<int>(op)) % 7 != 0) continue;
        CHECK(try_shapes(task, inputs) == "");
      }
    }
  }
}

TEST_CASE("a reduction may overwrite any of its inputs, also with the second copy") {
  constexpr int64_t kCount = 517;
  for (int type = 0; type < kDtypeCount; ++type) {
    for (const ReduceOp op : kAllOps) {
      ReduceTask task;
      task.dtype = static_cast<Dtype>(type);
      task.op = op;
      task.divisor = 3;
      task.postscale = 2.0;
      if (!why_undefined(op, task.dtype).empty()) continue;
      for (const Isa isa : available_isas()) {
        for (const StoreHint hint : {StoreHint::kPlain, StoreHint::kNonTemporal}) {
          Trial trial(task.dtype, 3, kCount, 8);
          const Bytes expected = reduced(task, trial.inputs(), kCount);
          reduce(kernels(isa), task, trial.inputs(), trial.input(1), hint, trial.input(2), kCount);
          INFO(describe(isa, task, 3, kCount));
          CHECK(trial.difference(trial.input(1), expected) == "");
          CHECK(trial.difference(trial.input(2), expected) == "");
        }
      }
    }
  }
}

TEST_CASE("16-bit values held as fp32 are reduced to the bits of a cast, a reduction and a cast back") {
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBf16}) {
    for (const ReduceOp op : kAllOps) {
      ReduceTask task;
      task.dtype = dtype;
      task.op = op;
      task.divisor = 3;
      if (!why_undefined(op, dtype).empty()) continue;
      for (const int64_t count : {1, 7, 31, 64, 1029}) {
        task.postscale = count == 64 ? 0.3 : 1.0;
        const Groups groups = count == 7 ? Groups{2, 1} : Groups{};
        task.groups = groups;
        Trial trial(Dtype::kF32, 3, count, 4);
        task.held_as_f32 = HeldAsF32::kNone;
        const Bytes expected = cast_and_reduced(task, trial.inputs(), count);
        task.held_as_f32 = HeldAsF32::kAll;
        for (const Isa isa : available_isas()) {
          const StoreHint hint = count == 31 ? StoreHint::kPlain : StoreHint::kNonTemporal;
          INFO(describe(isa, task, 3, count));
          reduce(kernels(isa), task, trial.inputs(), trial.out(), hint, trial.also(), count);
          CHECK(trial.difference(trial.out(), expected) == "");
          CHECK(trial.difference(trial.also(), expected) == "");
          CHECK(try_own(kernels(isa), task, trial, expected, count) == "");
        }
      }
    }
  }
}

TEST_CASE("the set in use is the best one, and each set can be had by its name") {
  CHECK(std::string(kernel_set_name()) == name_of(best_isa()));
  for (const Isa isa : available_isas()) CHECK(kernels(isa).isa == isa);
  CHECK(kernels(Isa::kAvx512).isa == best_isa());
}
