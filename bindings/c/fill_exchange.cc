// What a rank contributes to an operation that moves rows: the number of rows for each rank, and the memory for the
// rows that arrive. Dimension 0 becomes 0 in the agreed shape, because ranks may have different numbers of rows; all
// other dimensions must be equal. If all give as many rows, by the caller's word, dimension 0 stays and is agreed on.
#include "bindings/c/fill_exchange.h"

#include <fmt/format.h>

#include <numeric>

#include "bindings/c/wrong.h"
#include "ops/owner_parts.h"

namespace rueda::core {
namespace {

constexpr int64_t kMaxRowBytes = int64_t{1} << 47;

/// Elements of one row; 0 if a dimension beyond the first is 0.
Result<int64_t> row_elements(const Metadata& metadata) {
  const auto element = static_cast<int64_t>(size_of(metadata.dtype));
  int64_t row = 1;
  for (size_t d = 1; d < metadata.shape.size(); ++d) {
    if (metadata.shape[d] == 0) return int64_t{0};
  }
  for (size_t d = 1; d < metadata.shape.size(); ++d) {
    if (metadata.shape[d] > kMaxRowBytes / element / row) {
      return wrong(fmt::format("input: a row exceeds the limit of 2^47 bytes at dimension {}", d));
    }
    row *= metadata.shape[d];
  }
  return row;
}

Status take_splits(TensorPart& tensor, std::span<const int64_t> splits, int64_t rows) {
  int64_t left = rows;
  for (size_t i = 0; i < splits.size(); ++i) {
    if (splits[i] < 0 || splits[i] > left) {
      return wrong(fmt::format("splits[{}] is {}; {} of {} rows are left", i, splits[i], left, rows));
    }
    left -= splits[i];
  }
  if (left != 0) return wrong(fmt::format("splits add up to {}; the input has {} rows", rows - left, rows));
  tensor.parts.assign(splits.begin(), splits.end());
  return {};
}

Status split_evenly(TensorPart& tensor, int64_t rows, int size) {
  if (tensor.request.metadata.kind == OpKind::kAlltoall && rows % size != 0) {
    return wrong(fmt::format("without splits the {} rows must be a multiple of the {} ranks", rows, size));
  }
  for (int place = 0; place < size; ++place) tensor.parts.push_back(rows_of(rows, 1, size, place).length());
  return {};
}

Status fill_parts(TensorPart& tensor, const OperationCall& call, SetPlace set, size_t index, int64_t rows) {
  const OpKind kind = tensor.request.metadata.kind;
  if (kind == OpKind::kAllgather || kind == OpKind::kGather) {
    tensor.parts = {rows};
  } else if (kind == OpKind::kAlltoall || call.root == set.rank) {
    const int64_t* const splits = call.splits != nullptr ? call.splits[index] : nullptr;
    const auto size = static_cast<size_t>(set.size);
    RUEDA_RETURN_IF_ERROR(splits != nullptr ? take_splits(tensor, {splits, size}, rows)
                                            : split_evenly(tensor, rows, set.size));
  }
  tensor.slice.parts = tensor.parts.data();
  return {};
}

/// Whether the input lies in the output of an all-gather of equal parts, where this rank's rows belong.
bool lies_in_place(const TensorPart& tensor, SetPlace set, const CheckedTensor& input, const CheckedTensor& output) {
  const size_t before = static_cast<size_t>(set.place) * input.bytes;
  return tensor.slice.same_rows && output.bytes == static_cast<size_t>(set.size) * input.bytes &&
         static_cast<const std::byte*>(input.tensor.data) == static_cast<const std::byte*>(output.tensor.data) + before;
}

}  // namespace

Status fill_exchange(TensorPart& tensor, const OperationCall& call, SetPlace set, size_t index,
                     const CheckedTensor& input, const CheckedTensor* output, RowsOf rows_of_all) {
  Metadata& metadata = tensor.request.metadata;
  if (metadata.dimensions().empty()) {
    return wrong(fmt::format("input: {} moves rows of dimension 0; the tensor has no dimensions", name_of(call.kind)));
  }
  const Result<int64_t> row = row_elements(metadata);
  if (!row.ok()) return row.status();
  tensor.slice.row = row.value();
  const int64_t rows = std::exchange(metadata.shape[0], 0);
  RUEDA_RETURN_IF_ERROR(fill_parts(tensor, call, set, index, rows));
  tensor.output = std::make_unique<OutputShape>(OutputShape{metadata.shape, 0});
  if (rows_of_all == RowsOf::kSame) metadata.shape[0] = rows;
  tensor.slice.same_rows = metadata.shape[0] != 0;
  if (call.kind == OpKind::kGather && call.root != set.rank) return {};
  tensor.arrives = true;
  if (output == nullptr) return {};
  Extents shape = tensor.output->shape;
  if (output->tensor.dimensions > 0) shape[0] = output->tensor.shape[0];
  RUEDA_RETURN_IF_ERROR(check_output(input, *output, std::span(shape).first(metadata.dimensions().size())));
  if (!lies_in_place(tensor, set, input, *output)) RUEDA_RETURN_IF_ERROR(check_overlap(input, *output, nullptr));
  tensor.slice.out = static_cast<std::byte*>(output->tensor.data);
  *tensor.output = OutputShape{shape, output->count};
  return {};
}

}  // namespace rueda::core
