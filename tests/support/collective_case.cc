// Inputs and expected results of a collective by formula. Expected values are computed element by element in double
// (complex) from the inputs' formula, never by the code under test, so a failure can name the rank and the index.
#include "tests/support/collective_case.h"

#include <chrono>
#include <cmath>
#include <complex>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "ops/owner_parts.h"
#include "ops/packing.h"
#include "runtime/base/half.h"

namespace rueda::core {

namespace {

using Number = std::complex<double>;
using Values = CollectiveCase::Values;
using Buffers = CollectiveCase::Buffers;

template <typename T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

template <typename T>
void put_whole(std::byte* at, double value) {
  put(at, static_cast<T>(static_cast<int64_t>(value)));
}

void store_real(Dtype dtype, std::byte* at, double value) {
  switch (dtype) {
    case Dtype::kU8: return put_whole<uint8_t>(at, value);
    case Dtype::kI8: return put_whole<int8_t>(at, value);
    case Dtype::kU16: return put_whole<uint16_t>(at, value);
    case Dtype::kI16: return put_whole<int16_t>(at, value);
    case Dtype::kU32: return put_whole<uint32_t>(at, value);
    case Dtype::kI32: return put_whole<int32_t>(at, value);
    case Dtype::kU64: return put_whole<uint64_t>(at, value);
    case Dtype::kI64: return put_whole<int64_t>(at, value);
    case Dtype::kF16: return put(at, f32_to_f16(static_cast<float>(value)).bits);
    case Dtype::kBf16: return put(at, f32_to_bf16(static_cast<float>(value)).bits);
    case Dtype::kF32: return put(at, static_cast<float>(value));
    case Dtype::kF64: return put(at, value);
    case Dtype::kBool: return put<uint8_t>(at, value != 0.0 ? 1 : 0);
    default: break;
  }
}

void store(Dtype dtype, std::byte* at, Number value) {
  store_real(part_of(dtype), at, value.real());
  if (is_complex(dtype)) store_real(part_of(dtype), at + size_of(part_of(dtype)), value.imag());
}

/// The element's bytes, the last one first: the number where it is a whole one.
std::string hex(Dtype dtype, const std::byte* at) {
  std::string text = "0x";
  for (size_t i = size_of(dtype); i-- > 0;) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", std::to_integer<unsigned>(at[i]));
    text += digits;
  }
  return text;
}

bool is_signed(Dtype dtype) {
  return is_float(part_of(dtype)) || dtype == Dtype::kI8 || dtype == Dtype::kI16 || dtype == Dtype::kI32 ||
         dtype == Dtype::kI64;
}

double factor_value(Dtype dtype, int member, int64_t i) {
  const double magnitude = (i + member) % 3 == 0 ? 2 : 1;
  return is_signed(dtype) && (3 * i + member) % 4 == 0 ? -magnitude : magnitude;
}

/// What member `member` contributes at element `i` of the batch.
double exact_input(const CollectiveCase& test, int member, int members, int64_t i) {
  if (test.dtype == Dtype::kBool) return (7 * i + int64_t{3} * member) % 3 == 0 ? 1 : 0;
  if (test.op == ReduceOp::kProduct) return factor_value(test.dtype, member, i);
  const double value = static_cast<double>((7 * i + int64_t{3} * member) % 5) - (is_signed(test.dtype) ? 2 : 0);
  return test.op == ReduceOp::kAverage && is_float(part_of(test.dtype)) ? value * members : value;
}

double rounding_input(int member, int64_t i) {
  const auto mixed = (static_cast<uint64_t>(i) * 2654435761u + static_cast<uint64_t>(member) * 40503u) % 2000003u;
  return static_cast<double>(mixed) / 1000001.5 - 1.0;
}

Number scaled(Dtype dtype, Number value, double scale) {
  if (dtype == Dtype::kBool) return value;
  return is_float(part_of(dtype)) ? value * scale : std::trunc(value.real() * scale);
}

Number folded(ReduceOp op, Number a, Number b) {
  const auto whole = [](Number number) { return static_cast<int64_t>(number.real()); };
  switch (op) {
    case ReduceOp::kMin: return std::min(a.real(), b.real());
    case ReduceOp::kMax: return std::max(a.real(), b.real());
    case ReduceOp::kProduct: return a * b;
    case ReduceOp::kBand: return static_cast<double>(whole(a) & whole(b));
    case ReduceOp::kBor: return static_cast<double>(whole(a) | whole(b));
    case ReduceOp::kBxor: return static_cast<double>(whole(a) ^ whole(b));
    default: return a + b;
  }
}

/// A factor whose product over all members has no part that is zero: the sign of a zero would tell the order.
Number complex_factor(int member, int64_t i) {
  constexpr Number kTurns[] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
  const Number turned = kTurns[(3 * i + member) % 4] * (member == 0 ? Number(2, 1) : Number(1, 0));
  return (i + member) % 3 == 0 ? turned * 2.0 : turned;
}

/// The imaginary part of a summand is the formula's value at another place.
Number exact_element(const CollectiveCase& test, int member, int members, int64_t i) {
  if (is_complex(test.dtype) && test.op == ReduceOp::kProduct) return complex_factor(member, i + test.salt);
  const double real = exact_input(test, member, members, i + test.salt);
  return {real, is_complex(test.dtype) ? exact_input(test, member, members, 2 * i + test.salt + 1) : 0};
}

Number rounding_element(const CollectiveCase& test, int member, int64_t i) {
  return {rounding_input(member, i), is_complex(test.dtype) ? rounding_input(member, ~i) : 0};
}

Number expected(const CollectiveCase& test, int members, int64_t i) {
  Number value = scaled(test.dtype, exact_element(test, 0, members, i), test.prescale);
  for (int member = 1; member < members; ++member) {
    value = folded(test.op, value, scaled(test.dtype, exact_element(test, member, members, i), test.prescale));
  }
  if (test.op == ReduceOp::kAverage) {
    value /= members;
    if (!is_float(part_of(test.dtype))) value = std::trunc(value.real());
  }
  return scaled(test.dtype, value, test.postscale);
}

/// Broadcasts move bits of any kind: not-a-numbers and bools that are neither 0 nor 1 among them.
std::byte raw_byte(int member, int64_t offset) {
  return static_cast<std::byte>((offset * 37 + int64_t{member} * 101 + 11) & 0xff);
}

bool spreads(OpKind kind) { return kind == OpKind::kBroadcast || kind == OpKind::kSend; }

void fill_element(const CollectiveCase& test, int member, int members, int64_t i, std::byte* at) {
  const size_t bytes = size_of(test.dtype);
  if (spreads(test.kind)) {
    const int64_t first = i * static_cast<int64_t>(bytes) + test.salt;
    for (size_t b = 0; b < bytes; ++b) at[b] = raw_byte(member, first + static_cast<int64_t>(b));
  } else {
    const bool exact = test.values == Values::kExact;
    store(test.dtype, at, exact ? exact_element(test, member, members, i) : rounding_element(test, member, i));
  }
}

void expected_element(const CollectiveCase& test, int members, int64_t i, std::byte* at) {
  if (spreads(test.kind)) {
    fill_element(test, test.root, members, i, at);
  } else {
    store(test.dtype, at, expected(test, members, i));
  }
}

/// What a formula gives for the elements of a batch. It repeats itself: numbers after 60 elements (its moduli are 3, 4
/// and 5), raw bytes after 256. Values of full precision do not.
class Pattern {
 public:
  /// `element(i, at)` writes element i.
  template <typename Element>
  Pattern(const CollectiveCase& test, const Element& element) : width_(size_of(test.dtype)) {
    const bool rounding = test.values == Values::kRounding && !spreads(test.kind);
    period_ = std::min(test.count(), rounding ? test.count() : int64_t{spreads(test.kind) ? 256 : 60});
    bytes_.resize(static_cast<size_t>(period_) * width_);
    for (int64_t i = 0; i < period_; ++i) element(i, bytes_.data() + static_cast<size_t>(i) * width_);
  }
  const std::byte* at(int64_t i) const { return bytes_.data() + static_cast<size_t>(i % period_) * width_; }

 private:
  size_t width_;
  int64_t period_ = 0;
  std::vector<std::byte> bytes_;
};

/// What a member's tensors take: inputs and outputs, or the rows that it exchanges.
size_t most_bytes(const CollectiveCase& test, const Team& team) {
  if (!exchanges(test.kind)) return 2 * static_cast<size_t>(test.count()) * size_of(test.dtype);
  size_t bytes = 0;
  for (size_t t = 0; t < test.counts.size(); ++t) bytes += exchange_input(test, team, team.index, t).bytes.size();
  return bytes;
}

/// An algorithm's plan with another chunk length.
AlgorithmChoice plan_with(const Algorithm& algorithm, const BatchShape& shape, uint32_t chunk_bytes) {
  AlgorithmChoice choice = algorithm.plan(shape);
  if (shape.kind == OpKind::kReducescatter || shape.kind == OpKind::kReduce) return plan_pieces(shape, chunk_bytes);
  if (!exchanges(shape.kind)) return plan_chunks(wire_bytes(shape), chunk_bytes);
  choice.chunk_bytes = std::min(choice.chunk_bytes, chunk_bytes);
  return choice;
}

}  // namespace

int64_t CollectiveCase::count() const { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

BatchShape CollectiveCase::shape(int ranks) const {
  BatchShape shape;
  shape.kind = kind;
  shape.dtype = dtype;
  shape.op = op;
  shape.codec = codec;
  shape.bytes = static_cast<uint64_t>(count()) * size_of(dtype);
  shape.tensors = counts.size();
  shape.ranks = ranks;
  return shape;
}

CollectiveCase CollectiveCase::salted(uint64_t stamp) const {
  CollectiveCase other = *this;
  other.salt = static_cast<int64_t>(stamp % 1009);
  return other;
}

std::string CollectiveCase::text() const {
  return std::string(name_of(kind)) + " " + name_of(op) + " of " + std::to_string(counts.size()) + " tensors, " +
         std::to_string(count()) + " " + name_of(dtype) + " in rows of " + std::to_string(row) + ", codec " +
         name_of(codec) + ", scales " + std::to_string(prescale) + " and " + std::to_string(postscale) + ", root " +
         std::to_string(root) + (buffers == Buffers::kInPlace ? ", in place" : ", out of place");
}

CollectiveCase reduction(Dtype dtype, ReduceOp op, std::vector<int64_t> counts) {
  CollectiveCase test;
  test.dtype = dtype;
  test.op = op;
  test.counts = std::move(counts);
  return test;
}

CaseTensors::CaseTensors(const CollectiveCase& test, const Team& team, TensorArena* arena)
    : case_(test), team_(team), memory_(arena, most_bytes(test, team), 2 * test.counts.size()), arrived_(test) {
  if (exchanges(test.kind)) {
    fill_exchange();
    return;
  }
  const size_t bytes = size_of(test.dtype);
  for (const int64_t count : test.counts) inputs_.push_back(memory_.place(static_cast<size_t>(count) * bytes));
  for (size_t t = 0; t < inputs_.size(); ++t) {
    const ElementRange range = result_range(t);
    std::byte* out = inputs_[t].data() + static_cast<size_t>(range.begin) * bytes;
    if (test.buffers == Buffers::kOutOfPlace) {
      out = outputs_.emplace_back(memory_.place(static_cast<size_t>(range.length()) * bytes)).data();
    }
    slices_.push_back({inputs_[t].data(), out, test.counts[t], test.row});
  }
  fill();
}

ElementRange CaseTensors::result_range(size_t tensor) const {
  const int64_t count = case_.counts[tensor];
  if (case_.kind == OpKind::kReduce) return {0, team_.index == case_.root ? count : 0};
  if (case_.kind != OpKind::kReducescatter) return {0, count};
  const int rank = team_.ranks[static_cast<size_t>(team_.index)];
  const auto place = std::count_if(team_.ranks.begin(), team_.ranks.end(), [rank](int other) { return other < rank; });
  return rows_of(count, case_.row, team_.size(), static_cast<int>(place));
}

void CaseTensors::fill_exchange() {
  for (size_t t = 0; t < case_.counts.size(); ++t) {
    exchanged_.push_back(exchange_input(case_, team_, team_.index, t));
  }
  for (const ExchangeInput& input : exchanged_) {
    const auto count = static_cast<int64_t>(input.bytes.size() / size_of(case_.dtype));
    const std::span<std::byte> tensor = memory_.place(input.bytes.size());
    std::copy(input.bytes.begin(), input.bytes.end(), tensor.begin());
    slices_.push_back({tensor.data(), nullptr, count, case_.row, input.parts.data()});
  }
}

Status CaseTensors::check_arrived() const {
  const std::vector<std::vector<std::byte>> expected = expected_arrivals(case_, team_);
  for (size_t t = 0; t < std::max(expected.size(), arrived_.tensors.size()); ++t) {
    if (t < expected.size() && t < arrived_.tensors.size() && expected[t] == arrived_.tensors[t]) continue;
    return Status(Code::kSystem, case_.text() + ": member " + std::to_string(team_.index) + " of " +
                                     std::to_string(team_.size()) + " got other rows of tensor " + std::to_string(t));
  }
  return {};
}

void CaseTensors::fill() {
  const size_t bytes = size_of(case_.dtype);
  const Pattern inputs(case_,
                       [this](int64_t i, std::byte* at) { fill_element(case_, team_.index, team_.size(), i, at); });
  int64_t i = 0;
  for (const std::span<std::byte> tensor : inputs_) {
    for (size_t at = 0; at < tensor.size(); at += bytes) std::memcpy(tensor.data() + at, inputs.at(i++), bytes);
  }
}

Call CaseTensors::call(const AlgorithmChoice& choice, uint64_t stamp) const {
  Call call;
  call.kind = case_.kind;
  call.dtype = case_.dtype;
  call.op = case_.op;
  call.codec = case_.codec;
  call.prescale = case_.prescale;
  call.postscale = case_.postscale;
  call.root = case_.root;
  call.slices = slices_;
  call.count = case_.count();
  call.choice = choice;
  call.stamp = stamp;
  call.team = &team_;
  call.arrivals = &arrived_;
  return call;
}

Status CaseTensors::check() const {
  if (exchanges(case_.kind)) return check_arrived();
  const size_t bytes = size_of(case_.dtype);
  const Pattern wanted(case_, [this](int64_t i, std::byte* at) { expected_element(case_, team_.size(), i, at); });
  int64_t first = 0;
  for (size_t t = 0; t < slices_.size(); first += slices_[t++].count) {
    const ElementRange range = result_range(t);
    for (int64_t k = range.begin; k < range.end; ++k) {
      const int64_t i = first + k;
      const std::byte* const want = wanted.at(i);
      const std::byte* const got = slices_[t].out + static_cast<size_t>(k - range.begin) * bytes;
      if (std::memcmp(got, want, bytes) == 0) continue;
      return Status(Code::kSystem, case_.text() + ": member " + std::to_string(team_.index) + " of " +
                                       std::to_string(team_.size()) + ", element " + std::to_string(i) + " is " +
                                       hex(case_.dtype, got) + ", not " + hex(case_.dtype, want));
    }
  }
  return {};
}

Status CaseTensors::check_inputs() const {
  if (const int tensor = memory_.first_overrun(); tensor >= 0) {
    return Status(Code::kSystem, case_.text() + ": member " + std::to_string(team_.index) +
                                     ": something was written behind tensor " + std::to_string(tensor));
  }
  if (outputs_.empty()) return {};
  const CaseTensors fresh(case_, team_);
  const auto same = [](std::span<std::byte> a, std::span<std::byte> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  };
  if (std::equal(inputs_.begin(), inputs_.end(), fresh.inputs_.begin(), same)) return {};
  return Status(Code::kSystem, case_.text() + ": member " + std::to_string(team_.index) + " has written to its inputs");
}

std::vector<std::byte> CaseTensors::results() const {
  std::vector<std::byte> all;
  for (size_t t = 0; t < slices_.size(); ++t) {
    const size_t bytes = static_cast<size_t>(result_range(t).length()) * size_of(case_.dtype);
    all.insert(all.end(), slices_[t].out, slices_[t].out + bytes);
  }
  return all;
}

Status run_case(const Algorithm& algorithm, const CollectiveCase& test, const Team& team, Mesh& mesh, uint64_t& stamp,
                uint32_t chunk_bytes) {
  const BatchShape shape = shape_for(algorithm, test, team.size());
  AlgorithmChoice choice = chunk_bytes == 0 ? algorithm.plan(shape) : plan_with(algorithm, shape, chunk_bytes);
  choice.lane_slots = test.lane_slots;
  const CollectiveCase salted = test.salted(stamp);
  const CaseTensors tensors(salted, team, arena_for(algorithm, test, team.size(), mesh));
  const Call call = tensors.call(choice, stamp);
  stamp += choice.stamps;
  Status result = algorithm.run(call, mesh, Deadline::after(std::chrono::minutes(5)));
  if (!result.ok()) return result;
  if (result = tensors.check_inputs(); !result.ok()) return result;
  result = tensors.check();
  return result.ok() ? result : Status(result.code(), std::string(algorithm.name) + ": " + result.sentence());
}

}  // namespace rueda::core
