// The adaptive sum as a sequence of exchanges of bytes (ops/cpu/byte_exchange.h). The same code runs over shared memory
// and over channels; Maleki et al., MLSys 2021, have the formula, adasum.h shows the tree.
//
//   phase 0        all-to-all   member m receives its blocks of every rank's vector        v0 v1 v2 v3
//   phase 1        all-gather   products of the pairs (0,1) and (2,3); each member then    v0 <- v0+v1,  v2 <- v2+v3
//                               combines its blocks of both pairs
//   phase 2        all-gather   products of the pair (0,2), in which 0 stands for 01       v0 <- v0+v2
//   last phase     all-gather   the combined blocks, scaled and rounded once               the result on every member
//
// The factors of a pair need the products of the whole vectors, so no element can be combined before all members'
// products have arrived: one exchange a level, shared by all its pairs. Every member works on all pairs of a level, in
// its own blocks, so that no rank idles at the upper levels, as it would if pairs of ranks exchanged whole vectors.
//
// Cost for B bytes and N ranks: ceil(log2(N)) + 2 exchanges; the first and the last move B (N-1)/N each.
#include "ops/cpu/adasum.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "compression/cast.h"
#include "ops/cpu/byte_exchange.h"
#include "ops/cpu/direct_exchange.h"
#include "ops/cpu/shm_exchange.h"
#include "ops/cpu/shm_slots.h"
#include "ops/kernels/reduce.h"
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

/// The factor of a vector v with |v|^2 = `own` and the product a.b = `both`. A vector of zeros has no direction to take
/// out of the other one, and 0/0 must not spread.
double weight(double both, double own) { return own > 0 ? 1 - both / (2 * own) : 1; }

/// Ends the operation as every reduction ends: multiplies by `factor` and gives every NaN the same bits. `out` may be
/// `in`. A reduction of one input does exactly that.
void finish(Dtype dtype, double factor, const std::byte* in, std::byte* out, int64_t count) {
  const std::span<const std::byte* const> one(&in, 1);
  ReduceTask task;
  task.dtype = dtype;
  task.postscale = factor;
  reduce(task, one, out, StoreHint::kPlain, nullptr, count);
}

/// The number of exchanges: the elements, the products of each level of the tree, the results.
int phases_of(int ranks) { return static_cast<int>(std::bit_width(static_cast<unsigned>(ranks - 1))) + 2; }

/// Products are added up block by block of a tensor, in order. So the bits of a tensor's result depend neither on the
/// tensors that share its batch nor on the number of members that share the work.
constexpr int64_t kProductBlock = 1024;

struct Block {
  size_t tensor;
  int64_t begin;  ///< in the batch
  int64_t end;
};

std::vector<Block> blocks_of(std::span<const Slice> tensors) {
  std::vector<Block> blocks;
  int64_t begin = 0;
  for (size_t tensor = 0; tensor < tensors.size(); ++tensor) {
    const int64_t end = begin + tensors[tensor].count;
    for (int64_t at = begin; at < end; at += kProductBlock)
      blocks.push_back({tensor, at, std::min(end, at + kProductBlock)});
    begin = end;
  }
  return blocks;
}

/// One run, with combinations computed in `Real`. Each block belongs to one member as a whole, so that one member adds
/// up its products.
template <typename Real>
class Adasum {
 public:
  Adasum(const Call& call, const ByteExchange& exchange)
      : call_(call),
        exchange_(exchange),
        packing_(call),
        size_(call.team->size()),
        blocks_(blocks_of(call.slices)),
        own_(blocks_at(exchange.position())),
        part_(elements_of(exchange.position())) {}

  Status run() {
    RUEDA_RETURN_IF_ERROR(scatter());
    int phase = 1;
    for (int stride = 1; stride < size_; stride *= 2) RUEDA_RETURN_IF_ERROR(combine(stride, phase++));
    return gather(phase);
  }

 private:
  static constexpr Dtype kReal = sizeof(Real) == 4 ? Dtype::kF32 : Dtype::kF64;

  size_t bytes(int64_t count) const { return static_cast<size_t>(count) * packing_.element_bytes(); }
  Real* vector(int position) { return vectors_.data() + static_cast<size_t>(position * part_.length()); }

  std::span<const Block> blocks_at(int position) const {
    const ElementRange range = rows_of(static_cast<int64_t>(blocks_.size()), 1, size_, position);
    return std::span(blocks_).subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.length()));
  }
  ElementRange elements_of(int position) const {
    const std::span<const Block> blocks = blocks_at(position);
    return blocks.empty() ? ElementRange{0, 0} : ElementRange{blocks.front().begin, blocks.back().end};
  }

  Status scatter();
  Status combine(int stride, int phase);
  Status gather(int phase);
  void multiply(int first, int second, std::vector<Products>& by_block);
  void add(int first, int second, std::span<const Products> by_tensor);

  const Call& call_;
  const ByteExchange& exchange_;
  Packing packing_;
  int size_;
  std::vector<Block> blocks_;  // of the batch
  std::span<const Block> own_;
  ElementRange part_;          // theirs
  std::vector<Real> vectors_;  // the own part of every rank's elements
};

template <typename Real>
Status Adasum<Real>::scatter() {
  // `rows_of` deals whole blocks out in the order of ranks, so member m's elements are one stretch of the batch.
  std::vector<std::byte> packed(bytes(call_.count));
  SliceCursor cursor = packing_.cursor();
  packing_.pack(cursor, call_.count, packed.data(), StoreHint::kPlain);
  std::vector<int64_t> parts;
  for (int position = 0; position < size_; ++position) {
    parts.push_back(static_cast<int64_t>(bytes(elements_of(position).length())));
  }
  std::vector<std::byte> arrived;
  RUEDA_RETURN_IF_ERROR(exchange_.run(0, OpKind::kAlltoall, packed, parts, arrived));
  // What arrived lies in the order of ranks: vector r is the part that rank r sent.
  vectors_.resize(static_cast<size_t>(part_.length() * size_));
  cast(casts(best_isa()), {.from = call_.dtype, .to = kReal}, arrived.data(),
       reinterpret_cast<std::byte*>(vectors_.data()), part_.length() * size_);
  return {};
}

template <typename Real>
void Adasum<Real>::multiply(int first, int second, std::vector<Products>& by_block) {
  const Real* a = vector(first);
  const Real* b = vector(second);
  for (const Block& block : own_) {
    Products sum;
    for (int64_t left = block.end - block.begin; left > 0; --left, ++a, ++b) {
      sum.both += double{*a} * double{*b};
      sum.first += double{*a} * double{*a};
      sum.second += double{*b} * double{*b};
    }
    by_block.push_back(sum);
  }
}

template <typename Real>
void Adasum<Real>::add(int first, int second, std::span<const Products> by_tensor) {
  Real* a = vector(first);
  const Real* b = vector(second);
  for (const Block& block : own_) {
    const Products& sum = by_tensor[block.tensor];
    const auto of_a = static_cast<Real>(weight(sum.both, sum.first));
    const auto of_b = static_cast<Real>(weight(sum.both, sum.second));
    for (int64_t left = block.end - block.begin; left > 0; --left, ++a, ++b) *a = of_a * *a + of_b * *b;
  }
}

/// One level of the tree: pairs (first, first + stride). Each member sends the products of its blocks, pair after pair;
/// they arrive in the order of ranks, which is the order of blocks. All members add the same numbers in the same order,
/// so all compute the same factors.
template <typename Real>
Status Adasum<Real>::combine(int stride, int phase) {
  const size_t tensors = call_.slices.size();
  std::vector<Products> own;
  size_t pairs = 0;
  for (int first = 0; first + stride < size_; first += 2 * stride, ++pairs) multiply(first, first + stride, own);
  std::vector<std::byte> arrived;
  const auto sent = static_cast<int64_t>(own.size() * sizeof(Products));
  RUEDA_RETURN_IF_ERROR(exchange_.run(phase, OpKind::kAllgather, std::as_bytes(std::span(own)), {&sent, 1}, arrived));
  // From here on every member does the same additions, tensor by tensor.
  std::vector<Products> sums(pairs * tensors);
  const std::byte* next = arrived.data();
  for (int position = 0; position < size_; ++position) {
    for (size_t pair = 0; pair < pairs; ++pair) {
      for (const Block& block : blocks_at(position)) {
        Products part;
        std::memcpy(&part, next, sizeof part);
        next += sizeof part;
        Products& sum = sums[pair * tensors + block.tensor];
        sum = {sum.both + part.both, sum.first + part.first, sum.second + part.second};
      }
    }
  }
  std::span<const Products> of_pair = sums;
  for (int first = 0; first + stride < size_; first += 2 * stride) {
    add(first, first + stride, of_pair.first(tensors));
    of_pair = of_pair.subspan(tensors);
  }
  return {};
}

template <typename Real>
Status Adasum<Real>::gather(int phase) {
  // The root of the tree is vector 0. Scaling in `Real` and converting afterwards rounds a 16-bit result once.
  std::byte* const sum = reinterpret_cast<std::byte*>(vectors_.data());
  finish(kReal, call_.postscale, sum, sum, part_.length());
  std::vector<std::byte> own(bytes(part_.length()));
  cast(casts(best_isa()), {.from = kReal, .to = call_.dtype}, sum, own.data(), part_.length());
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

/// Phases run one after the other within the stamps of one batch, each with as many as an exchange takes.
AlgorithmChoice all_phases(AlgorithmChoice one, int ranks) {
  one.stamps *= static_cast<uint64_t>(phases_of(ranks));
  return one;
}

}  // namespace

bool shm_adasum_fits(const BatchShape& shape) { return fits(shape) && shm_fits(shape); }
bool direct_adasum_fits(const BatchShape& shape) { return fits(shape); }

AlgorithmChoice shm_adasum_plan(const BatchShape& shape) { return all_phases(shm_exchange_plan(shape), shape.ranks); }
AlgorithmChoice direct_adasum_plan(const BatchShape& shape) {
  return all_phases(direct_exchange_plan(shape), shape.ranks);
}

Status shm_adasum(const Call& call, Mesh& mesh, Deadline deadline) {
  return run_over(call, ByteExchange(call, mesh, deadline, phases_of(call.team->size()), shm_exchange));
}
Status direct_adasum(const Call& call, Mesh& mesh, Deadline deadline) {
  return run_over(call, ByteExchange(call, mesh, deadline, phases_of(call.team->size()), direct_exchange));
}

Status local_adasum(const Call& call, Mesh&, Deadline) {
  for (const Slice& slice : call.slices) {
    finish(call.dtype, call.prescale * call.postscale, slice.in, slice.out, slice.count);
  }
  return {};
}

}  // namespace rueda::core
