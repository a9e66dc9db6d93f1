#include "ops/cpu/adasum.h"

#include <bit>
#include <cstring>

#include "compression/cast.h"
#include "ops/cpu/byte_exchange.h"
#include "ops/cpu/direct_exchange.h"
#include "ops/cpu/shm_exchange.h"
#include "ops/cpu/shm_slots.h"
#include "ops/owner_parts.h"
#include "ops/packing.h"

namespace rueda::core {

namespace {

/// What two vectors have in common: a.b, |a|^2, |b|^2.
struct Products {
  double both = 0;
  double first = 0;
  double second = 0;
};

/// How much of a vector stays, of which `own` is |v|^2.
double weight(double both, double own) { return own > 0 ? 1 - both / (2 * own) : 1; }

/// Exchanges of a batch: the elements, the products of each level, the results.
int phases_of(int ranks) { return static_cast<int>(std::bit_width(static_cast<unsigned>(ranks - 1))) + 2; }

/// One run, in the type that combinations are made in.
template <typename Real>
class Adasum {
 public:
  Adasum(const Call& call, const ByteExchange& exchange)
      : call_(call),
        exchange_(exchange),
        packing_(call),
        size_(call.team->size()),
        part_(rows_of(call.count, 1, size_, exchange.place())) {}

  Status run() {
    RUEDA_RETURN_IF_ERROR(scatter());
    int phase = 1;
    for (int stride = 1; stride < size_; stride *= 2) RUEDA_RETURN_IF_ERROR(combine(stride, phase++));
    return gather(phase);
  }

 private:
  static constexpr Dtype kReal = sizeof(Real) == 4 ? Dtype::kF32 : Dtype::kF64;

  size_t bytes(int64_t count) const { return static_cast<size_t>(count) * packing_.element_bytes(); }
  Real* vector(int place) { return vectors_.data() + static_cast<size_t>(place * part_.length()); }

  Status scatter();
  Status combine(int stride, int phase);
  Status gather(int phase);
  void multiply(int first, int second, std::span<Products> by_tensor);
  void add(int first, int second, std::span<const Products> by_tensor);
  template <typename Visit>
  void for_tensors(Visit&& visit) const;

  const Call& call_;
  const ByteExchange& exchange_;
  Packing packing_;
  int size_;
  ElementRange part_;
  std::vector<Real> vectors_;  // the own part of every rank's elements
};

/// Calls `visit(tensor, begin, end)` for each tensor that the own part has elements of, counted in the part.
template <typename Real>
template <typename Visit>
void Adasum<Real>::for_tensors(Visit&& visit) const {
  int64_t begin = -part_.begin;
  for (size_t tensor = 0; tensor < call_.slices.size(); ++tensor) {
    const int64_t end = begin + call_.slices[tensor].count;
    const int64_t from = std::max<int64_t>(begin, 0);
    const int64_t to = std::min(end, part_.length());
    if (from < to) visit(tensor, from, to);
    begin = end;
  }
}

template <typename Real>
Status Adasum<Real>::scatter() {
  std::vector<std::byte> packed(bytes(call_.count));
  SliceCursor cursor = packing_.cursor();
  packing_.pack(cursor, call_.count, packed.data(), StoreHint::kPlain);
  std::vector<int64_t> parts;
  for (int place = 0; place < size_; ++place) {
    parts.push_back(static_cast<int64_t>(bytes(rows_of(call_.count, 1, size_, place).length())));
  }
  std::vector<std::byte> arrived;
  RUEDA_RETURN_IF_ERROR(exchange_.run(0, OpKind::kAlltoall, packed, parts, arrived));
  vectors_.resize(static_cast<size_t>(part_.length() * size_));
  cast(casts(best_isa()), {.from = call_.dtype, .to = kReal}, arrived.data(),
       reinterpret_cast<std::byte*>(vectors_.data()), part_.length() * size_);
  return {};
}

template <typename Real>
void Adasum<Real>::multiply(int first, int second, std::span<Products> by_tensor) {
  const Real* const a = vector(first);
  const Real* const b = vector(second);
  for_tensors([&](size_t tensor, int64_t begin, int64_t end) {
    Products& sum = by_tensor[tensor];
    for (int64_t i = begin; i < end; ++i) {
      sum.both += double{a[i]} * double{b[i]};
      sum.first += double{a[i]} * double{a[i]};
      sum.second += double{b[i]} * double{b[i]};
    }
  });
}

template <typename Real>
void Adasum<Real>::add(int first, int second, std::span<const Products> by_tensor) {
  Real* const a = vector(first);
  const Real* const b = vector(second);
  for_tensors([&](size_t tensor, int64_t begin, int64_t end) {
    const Products& sum = by_tensor[tensor];
    const auto of_a = static_cast<Real>(weight(sum.both, sum.first));
    const auto of_b = static_cast<Real>(weight(sum.both, sum.second));
    for (int64_t i = begin; i < end; ++i) a[i] = of_a * a[i] + of_b * b[i];
  });
}

template <typename Real>
Status Adasum<Real>::combine(int stride, int phase) {
  const size_t tensors = call_.slices.size();
  std::vector<Products> own;
  for (int first = 0; first + stride < size_; first += 2 * stride) {
    own.resize(own.size() + tensors);
    multiply(first, first + stride, std::span(own).last(tensors));
  }
  std::vector<std::byte> arrived;
  const auto sent = static_cast<int64_t>(own.size() * sizeof(Products));
  RUEDA_RETURN_IF_ERROR(exchange_.run(phase, OpKind::kAllgather, std::as_bytes(std::span(own)), {&sent, 1}, arrived));
  std::vector<Products> sums(own.size());
  for (size_t i = 0; i < arrived.size() / sizeof(Products); ++i) {
    Products part;
    std::memcpy(&part, arrived.data() + i * sizeof part, sizeof part);
    Products& sum = sums[i % sums.size()];
    sum = {sum.both + part.both, sum.first + part.first, sum.second + part.second};
  }
  std::span<const Products> next = sums;
  for (int first = 0; first + stride < size_; first += 2 * stride) {
    add(first, first + stride, next.first(tensors));
    next = next.subspan(tensors);
  }
  return {};
}

template <typename Real>
Status Adasum<Real>::gather(int phase) {
  std::vector<std::byte> own(bytes(part_.length()));
  cast(casts(best_isa()), {.from = kReal, .to = call_.dtype, .factor = call_.postscale},
       reinterpret_cast<const std::byte*>(vectors_.data()), own.data(), part_.length());
  std::vector<std::byte> all;
  const auto sent = static_cast<int64_t>(own.size());
  RUEDA_RETURN_IF_ERROR(exchange_.run(phase, OpKind::kAllgather, own, {&sent, 1}, all));
  SliceCursor cursor = packing_.cursor();
  packing_.unpack(cursor, call_.count, all.data());
  return {};
}

Status run_over(const Call& call, const ByteExchange& exchange) {
  return call.dtype == Dtype::kF64 ? Adasum<double>(call, exchange).run() : Adasum<float>(call, exchange).run();
}

bool fits(const BatchShape& shape) {
  return shape.op == ReduceOp::kAdasum && is_float(shape.dtype) && shape.device < 0 && shape.ranks > 1;
}

RowChoice all_phases(RowChoice one, int ranks) {
  one.stamps *= static_cast<uint64_t>(phases_of(ranks));
  return one;
}

}  // namespace

bool shm_adasum_fits(const BatchShape& shape) { return fits(shape) && shm_fits(shape); }
bool direct_adasum_fits(const BatchShape& shape) { return fits(shape); }

RowChoice shm_adasum_plan(const BatchShape& shape) { return all_phases(shm_exchange_plan(shape), shape.ranks); }
RowChoice direct_adasum_plan(const BatchShape& shape) { return all_phases(direct_exchange_plan(shape), shape.ranks); }

Status shm_adasum(const Call& call, Mesh& mesh, Deadline deadline) {
  return run_over(call, ByteExchange(call, mesh, deadline, phases_of(call.team->size()), shm_exchange));
}
Status direct_adasum(const Call& call, Mesh& mesh, Deadline deadline) {
  return run_over(call, ByteExchange(call, mesh, deadline, phases_of(call.team->size()), direct_exchange));
}

Status local_adasum(const Call& call, Mesh&, Deadline) {
  for (const Slice& slice : call.slices) {
    if (slice.in == slice.out && call.prescale * call.postscale == 1.0) continue;
    cast(casts(best_isa()), {.from = call.dtype, .to = call.dtype, .factor = call.prescale * call.postscale}, slice.in,
         slice.out, slice.count);
  }
  return {};
}

}  // namespace rueda::core
