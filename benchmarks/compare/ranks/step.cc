// A step of any library: one tensor by a blocking call; several from the last to the first, as gradients come, and then
// waited for; or several copied into one, summed and copied back, which is what libraries without fusion leave to
// their callers.
#include "benchmarks/compare/ranks/step.h"

#include <algorithm>
#include <cstring>

namespace rueda::compare {
namespace {

constexpr size_t kAlignment = 64;

// Small whole numbers, other ones on each rank and in each tensor, whose sums are exact in fp16 and bf16, too.
float input(const Tensor& tensor, size_t i, int rank) {
  return static_cast<float>(i % 7 + tensor.index % 5 + static_cast<size_t>(rank));
}

float expected(const Tensor& tensor, size_t i, int ranks) {
  return input(tensor, i, 0) * static_cast<float>(ranks) + static_cast<float>(ranks * (ranks - 1)) / 2;
}

}  // namespace

Step::Step(Ranks& ranks, const Work& work) : ranks_(ranks), work_(work) {
  size_t offset = 0;
  for (size_t i = 0; i < work.counts.size(); ++i) {
    tensors_.push_back({nullptr, work.counts[i], i});
    offsets_.push_back(offset);
    offset += (work.counts[i] * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
    bytes_ += work.counts[i] * sizeof(float);
  }
  rotation_ = perf::rotation_of(offset, work.cold ? perf::Buffers::kCold : perf::Buffers::kHot,
                                perf::ranks_of_cache(static_cast<size_t>(ranks.size())));
  if (work.packed) pack_ = std::make_unique<perf::Memory>(bytes_);
  if (work.shared) {
    shared_ = ranks.allocate_shared(rotation_.bytes());
  } else {
    own_ = std::make_unique<perf::Memory>(rotation_.bytes());
  }
}

Step::~Step() {
  if (shared_ != nullptr) ranks_.free_shared(shared_);
}

void Step::move_to(size_t turn) {
  std::byte* const base = (own_ ? own_->data() : shared_) + rotation_.offset(turn);
  for (size_t i = 0; i < tensors_.size(); ++i) tensors_[i].data = reinterpret_cast<float*>(base + offsets_[i]);
}

void Step::run(size_t turn) {
  move_to(turn);
  if (work_.packed) {
    auto* const packed = reinterpret_cast<float*>(pack_->data());
    float* to = packed;
    for (const Tensor& each : tensors_) to = std::copy_n(each.data, each.count, to);
    ranks_.sum({packed, bytes_ / sizeof(float), 0}, work_);
    const float* from = packed;
    for (const Tensor& each : tensors_) {
      std::copy_n(from, each.count, each.data);
      from += each.count;
    }
  } else if (tensors_.size() == 1) {
    ranks_.sum(tensors_.front(), work_);
  } else {
    for (size_t i = tensors_.size(); i-- > 0;) ranks_.start(tensors_[i], work_);
    ranks_.finish();
  }
}

bool Step::is_correct() {
  const int rank = ranks_.rank(), ranks = ranks_.size();
  move_to(0);
  for (const Tensor& each : tensors_) {
    for (size_t i = 0; i < each.count; ++i) each.data[i] = input(each, i, rank);
  }
  run(0);
  bool all = true;
  for (const Tensor& each : tensors_) {
    for (size_t i = 0; i < each.count; ++i) all = each.data[i] == expected(each, i, ranks) && all;
    std::memset(each.data, 0, each.count * sizeof(float));  // sums of sums would end in infinities
  }
  // The other turns hold what memory was touched with: tiny numbers, whose sums are slow on some processors.
  for (size_t turn = 1; turn < rotation_.turns; ++turn) {
    move_to(turn);
    for (const Tensor& each : tensors_) std::memset(each.data, 0, each.count * sizeof(float));
  }
  return all;
}

}  // namespace rueda::compare
