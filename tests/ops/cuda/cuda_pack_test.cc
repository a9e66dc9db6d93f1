// The kernels give what the CPU's passes give, bit by bit: three ranks' tensors are gathered, added up as NCCL would,
// and scattered. The stand-in compiles the kernels' source for the host.
#include <catch2/catch.hpp>
#include <limits>

#include "ops/packing.h"
#include "runtime/base/half.h"
#include "tests/ops/cuda/kernels.h"

namespace rueda::test {
namespace {

using core::Call;
using core::CodecId;
using core::Dtype;
using core::ReduceOp;
using core::Slice;
using cuda::PackParameters;
using cuda::PackPiece;
using cuda::PackPlan;
using cuda::PackWay;
using Bytes = std::vector<std::byte>;

constexpr size_t kRanks = 3;

template <typename T>
T number(size_t i, size_t rank) {
  const auto small = static_cast<int>((i * 7 + rank * 3) % 11) - (std::numeric_limits<T>::is_signed ? 5 : 0);
  if (std::numeric_limits<T>::is_integer && i % 13 == 0) return std::numeric_limits<T>::max();
  return static_cast<T>(small);
}

/// Small numbers, so that sums are exact in 16 bits, and the greatest of the integers.
void fill(Dtype part, size_t rank, Bytes& memory) {
  const size_t size = core::size_of(part);
  for (size_t i = 0; i < memory.size() / size; ++i) {
    const auto put = [&](auto value) { std::memcpy(memory.data() + i * size, &value, size); };
    switch (part) {
      case Dtype::kU8: put(number<uint8_t>(i, rank)); break;
      case Dtype::kI8: put(number<int8_t>(i, rank)); break;
      case Dtype::kU16: put(number<uint16_t>(i, rank)); break;
      case Dtype::kI16: put(number<int16_t>(i, rank)); break;
      case Dtype::kU32: put(number<uint32_t>(i, rank)); break;
      case Dtype::kI32: put(number<int32_t>(i, rank)); break;
      case Dtype::kU64: put(number<uint64_t>(i, rank)); break;
      case Dtype::kI64: put(number<int64_t>(i, rank)); break;
      case Dtype::kF16: put(core::f32_to_f16(number<float>(i, rank)).bits); break;
      case Dtype::kBf16: put(core::f32_to_bf16(number<float>(i, rank)).bits); break;
      case Dtype::kF32: put(number<float>(i, rank)); break;
      case Dtype::kF64: put(number<double>(i, rank)); break;
      default: put(static_cast<uint8_t>((i + rank) % 3)); break;
    }
  }
}

/// Tensors of one batch in one memory, at odd offsets, and where each begins.
struct Layout {
  std::vector<int64_t> counts;
  std::vector<int64_t> begins;
  int64_t elements = 0;

  explicit Layout(std::vector<int64_t> all) : counts(std::move(all)) {
    for (size_t i = 0; i < counts.size(); ++i) {
      elements += static_cast<int64_t>(i % 4);
      begins.push_back(elements);
      elements += counts[i];
    }
  }
  std::vector<Slice> slices(std::byte* in, std::byte* out, size_t element) const {
    std::vector<Slice> all;
    for (size_t i = 0; i < counts.size(); ++i) {
      const auto offset = static_cast<size_t>(begins[i]) * element;
      all.push_back({in == nullptr ? nullptr : in + offset, out == nullptr ? nullptr : out + offset, counts[i]});
    }
    return all;
  }
};

Layout all_lengths() {
  std::vector<int64_t> counts;
  for (int64_t count = 0; count <= 33; ++count) counts.push_back(count);
  return Layout(counts);
}

/// More than the parameters hold, and more than a tile.
Layout many_pieces() {
  std::vector<int64_t> counts(150, 3);
  counts[7] = cuda::kTileElements + 1;
  counts[149] = 2 * cuda::kTileElements;
  return Layout(counts);
}

struct Case {
  Dtype dtype;
  ReduceOp op;
  CodecId codec = CodecId::kNone;
  double prescale = 1.0;
  double postscale = 1.0;
  bool has_absent = false;  ///< the last rank brings nothing
  std::string name() const {
    return std::string(core::name_of(op)) + " of " + core::name_of(dtype) + " by " + core::name_of(codec) + " * " +
           std::to_string(prescale) + " * " + std::to_string(postscale) + (has_absent ? ", one absent" : "");
  }
};

/// Runs the task over all pieces on the GPU: by warps and by blocks in turn, whatever their lengths.
void run_task(const PackPlan& plan, PackWay way, const std::vector<Slice>& slices, std::byte* buffer) {
  cuda::PackRounds rounds(slices, plan, INT64_MAX, SIZE_MAX);
  std::vector<PackPiece> pieces;
  if (!rounds.next(pieces)) return;
  const GpuStream stream(0);
  const GpuMemory<PackPiece> table(pieces);
  PackParameters parameters{};
  parameters.task = task_of(plan, way, buffer);
  parameters.task.pieces = static_cast<uint32_t>(pieces.size());
  parameters.task.tiles = rounds.tiles();
  static bool warped = false;
  warped = !warped;
  parameters.task.lanes = warped ? cuda::kWarp : cuda::kPackThreads;
  if (pieces.size() > cuda::kHeldPieces)
    parameters.task.table = table.data();
  else
    std::copy(pieces.begin(), pieces.end(), parameters.held);
  const core::Status launched = PackingGpu::one().kernels->launch(parameters, stream.get());
  expect(launched.ok(), launched.sentence());
  gpu().drain(stream.get());
}

Dtype dtype_of(cuda::NcclType type) {
  constexpr Dtype kTypes[] = {Dtype::kI8,  Dtype::kU8,  Dtype::kI32, Dtype::kU32, Dtype::kI64,
                              Dtype::kU64, Dtype::kF16, Dtype::kF32, Dtype::kF64, Dtype::kBf16};
  return kTypes[static_cast<size_t>(type)];
}

ReduceOp op_of(cuda::NcclOp op) {
  constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMax, ReduceOp::kMin};
  return kOps[static_cast<size_t>(op)];
}

Bytes reduced(const core::ReduceTask& task, const std::vector<Bytes>& inputs) {
  std::vector<const std::byte*> addresses;
  for (const Bytes& each : inputs) addresses.push_back(each.data());
  Bytes out(inputs.front().size());
  core::reduce(task, addresses, out.data(), core::StoreHint::kPlain, nullptr,
               static_cast<int64_t>(out.size() / core::size_of(task.dtype)));
  return out;
}

/// What the CPU gives for all of the memory.
Bytes on_cpu(const Call& call, const std::vector<Bytes>& inputs, size_t elements) {
  const core::Codec& codec = core::codec(call.codec);
  std::vector<Bytes> wires;
  const auto count = static_cast<int64_t>(elements);
  for (const Bytes& each : inputs) {
    wires.emplace_back(elements * core::size_of(codec.wire(call.dtype)));
    codec.encode(call.dtype, call.prescale, each.data(), wires.back().data(), count, core::StoreHint::kPlain);
  }
  core::ReduceTask task;
  task.dtype = codec.wire(call.dtype);
  task.op = call.op;
  task.postscale = call.postscale;
  task.divisor = call.divisor;
  const Bytes sum = reduced(task, wires);
  Bytes out(elements * core::size_of(call.dtype));
  codec.decode(call.dtype, sum.data(), out.data(), count, core::StoreHint::kPlain);
  return out;
}

Bytes values_of(const GpuMemory<std::byte>& memory) { return memory.values(); }

/// What kernels give, and the sum of NCCL's between them.
Bytes on_gpu(const PackPlan& plan, const Layout& layout, const std::vector<Bytes>& inputs, size_t element,
             bool has_absent) {
  const std::vector<Slice> shape = layout.slices(nullptr, nullptr, element);
  cuda::PackRounds rounds(shape, plan, INT64_MAX, SIZE_MAX);
  std::vector<PackPiece> pieces;
  rounds.next(pieces);
  const GpuMemory<std::byte> buffer(Bytes(static_cast<size_t>(rounds.bytes())));
  std::vector<Bytes> wires;
  for (size_t rank = 0; rank < kRanks; ++rank) {
    const bool is_absent = has_absent && rank == kRanks - 1;
    const GpuMemory<std::byte> tensors(inputs[std::min(rank, inputs.size() - 1)]);
    std::vector<Slice> slices = is_absent ? shape : layout.slices(tensors.data(), nullptr, element);
    run_task(plan, PackWay::kGather, slices, buffer.data());
    wires.push_back(values_of(buffer));
  }
  core::ReduceTask sum;
  sum.dtype = dtype_of(plan.type);
  sum.op = op_of(plan.op);
  const Bytes total = reduced(sum, wires);
  std::copy(total.begin(), total.end(), buffer.kernels());
  const GpuMemory<std::byte> out(Bytes(static_cast<size_t>(layout.elements) * element, std::byte{0xA5}));
  run_task(plan, PackWay::kScatter, layout.slices(nullptr, out.data(), element), buffer.data());
  return values_of(out);
}

void expect_as_on_cpu(const Case& each, const Layout& layout) {
  static const core::Team team{.ranks = {0, 1, 2}, .groups = {3}, .hosts = {}};
  Call call;
  call.team = &team;
  call.dtype = each.dtype;
  call.op = each.op;
  call.codec = each.codec;
  call.prescale = each.prescale;
  call.postscale = each.postscale;
  // Of f16 the division comes first, so it has to be exact.
  call.divisor = each.dtype == Dtype::kF16 || each.codec == CodecId::kFp16 ? 4 : 3;
  const auto plan = cuda::pack_plan_of(call);
  if (!plan) return expect(each.op == ReduceOp::kProduct, "there is no plan for " + each.name());
  const size_t element = core::size_of(each.dtype);
  std::vector<Bytes> inputs(each.has_absent ? kRanks - 1 : kRanks);
  for (size_t rank = 0; rank < inputs.size(); ++rank) {
    inputs[rank].resize(static_cast<size_t>(layout.elements) * element);
    fill(core::part_of(each.dtype), rank, inputs[rank]);
  }
  const Bytes expected = on_cpu(call, inputs, static_cast<size_t>(layout.elements));
  const Bytes got = on_gpu(*plan, layout, inputs, element, each.has_absent);
  Bytes wanted(got.size(), std::byte{0xA5});  // between tensors nothing is written
  for (size_t i = 0; i < layout.counts.size(); ++i) {
    const auto begin = layout.begins[i] * static_cast<int64_t>(element);
    std::copy_n(expected.begin() + begin, layout.counts[i] * static_cast<int64_t>(element), wanted.begin() + begin);
  }
  if (got == wanted) return;
  const auto at = std::mismatch(got.begin(), got.end(), wanted.begin()).first - got.begin();
  expect(false, each.name() + " differs at element " + std::to_string(at / static_cast<int64_t>(element)) + " of " +
                    std::to_string(layout.elements));
}

/// Of one type all operators, codecs and scales that there are.
std::vector<Case> cases_of(Dtype dtype) {
  std::vector<Case> all;
  const bool is_wide_float = dtype == Dtype::kF32 || dtype == Dtype::kF64;
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax}) {
    if (!cuda::can_pack(dtype, op) || (dtype == Dtype::kBool && op == ReduceOp::kAverage)) continue;
    for (const CodecId codec : {CodecId::kNone, CodecId::kFp16, CodecId::kBf16}) {
      if (codec != CodecId::kNone && !is_wide_float) continue;
      for (const double prescale : {1.0, -0.5}) {
        for (const double postscale : {1.0, 0.7}) {
          const bool is_mixed = (prescale == 1.0) != (postscale == 1.0);
          if (!is_mixed || RUEDA_TEST_SCALE == 1) all.push_back({dtype, op, codec, prescale, postscale});
        }
      }
      if (op != ReduceOp::kAverage) all.push_back({dtype, op, codec, 1.0, 1.0, true});
    }
  }
  return all;
}

TEST_CASE("kernels give what the CPU gives, for each type, operator, codec and scale, at odd addresses") {
  const auto dtype = static_cast<Dtype>(GENERATE(range(0, static_cast<int>(Dtype::kOpaque))));
  const Layout lengths = all_lengths();
  for (const Case& each : cases_of(dtype)) expect_as_on_cpu(each, lengths);
  CHECK(gpu().counts().wrong_kernels == 0);
}

TEST_CASE("more pieces than the parameters hold, and tensors of several tiles, are gathered and scattered alike") {
  const Layout many = many_pieces();
  for (const Case& each : {Case{Dtype::kF32, ReduceOp::kSum}, Case{Dtype::kF32, ReduceOp::kAverage, CodecId::kBf16},
                           Case{Dtype::kI64, ReduceOp::kAverage}, Case{Dtype::kI8, ReduceOp::kAverage},
                           Case{Dtype::kF16, ReduceOp::kSum, CodecId::kNone, 0.5}}) {
    expect_as_on_cpu(each, many);
  }
  CHECK(gpu().counts().wrong_kernels == 0);
}

TEST_CASE("each special value of f32 and f64 is encoded as the CPU encodes it") {
  std::vector<double> values = {0.0,
                                -0.0,
                                1e-8,
                                -1e-8,
                                6e-8,
                                65504,
                                65519.999,
                                65520,
                                -1e9,
                                1e300,
                                1 + 0x1p-11,
                                1 + 0x1p-11 + 0x1p-40,
                                1 + 0x1p-9 + 0x1p-40,
                                0x1p-149,
                                0x1p-1074,
                                std::numeric_limits<double>::infinity(),
                                -std::numeric_limits<double>::infinity(),
                                std::numeric_limits<double>::quiet_NaN()};
  std::vector<float> singles(values.begin(), values.end());
  const auto expect_encoded = [](auto& from, Dtype dtype, CodecId codec) {
    const core::Team team{.ranks = {0}, .groups = {1}, .hosts = {}};
    Call call;
    call.team = &team;
    call.dtype = dtype;
    call.codec = codec;
    const PackPlan plan = *cuda::pack_plan_of(call);
    const GpuMemory<std::remove_reference_t<decltype(from[0])>> tensor(from);
    const GpuMemory<std::byte> buffer(from.size() * 2);
    const std::vector<Slice> slices = {
        {reinterpret_cast<std::byte*>(tensor.data()), nullptr, static_cast<int64_t>(from.size())}};
    run_task(plan, PackWay::kGather, slices, buffer.data());
    Bytes expected(from.size() * 2);
    core::codec(codec).encode(dtype, 1.0, reinterpret_cast<const std::byte*>(from.data()), expected.data(),
                              static_cast<int64_t>(from.size()), core::StoreHint::kPlain);
    CHECK(values_of(buffer) == expected);
  };
  for (const CodecId codec : {CodecId::kFp16, CodecId::kBf16}) {
    expect_encoded(singles, Dtype::kF32, codec);
    expect_encoded(values, Dtype::kF64, codec);
  }
}

}  // namespace
}  // namespace rueda::test
