// Makes the input and the output of a rank that has joined.
//
// A rank that has joined still has to run every batch, or its peers would wait for it. It brings the neutral element,
// so it needs no tensor: all input elements are alike, and one block of them can stand in for any number. Algorithms
// may read any address of a slice and write all of its output, so a second block takes what they write.
#include "runtime/engine/absent_input.h"

#include <algorithm>

#include "runtime/agreement/neutral.h"

namespace rueda::core {

AbsentInput::AbsentInput(const Metadata& metadata, int members)
    : dealt_to_(metadata.kind == OpKind::kReducescatter ? members : 1),
      block_count_(std::max(static_cast<int64_t>(kBlockBytes / size_of(metadata.dtype)), dealt_to_)) {
  const size_t bytes = static_cast<size_t>(block_count_) * size_of(metadata.dtype);
  neutral_.resize((bytes + sizeof(Line) - 1) / sizeof(Line));
  sink_.resize(neutral_.size());
  fill_neutral(metadata, {neutral_.front().bytes, bytes});
}

/// Whole rows go round the members evenly as long as a slice has a multiple of their number; only the last slice of
/// each column may have others. All columns are alike, so the rows may be cut at any of them.
///
///   5 rows of 4 elements, 2 members; a block holds 6 elements
///
///     | 0 0 0 | 0 |    column 1: slices of 2, 2 and 1 rows: member 0 gets 1 + 1 + 1 of them, member 1 gets 1 + 1
///     | 0 0 0 | 0 |    column 2: one slice of 5 rows: 3 and 2, as of the whole tensor
void AbsentInput::append(int64_t count, int64_t row, std::vector<Slice>& slices) const {
  const int64_t rows = count / row;
  int64_t width = 0;
  for (int64_t column = 0; column < row; column += width) {
    width = std::min(row - column, block_count_ / dealt_to_);
    const int64_t most = block_count_ / width / dealt_to_ * dealt_to_;
    for (int64_t left = rows; left > 0; left -= std::min(left, most)) {
      Slice slice{};
      slice.in = neutral_.front().bytes;
      slice.out = sink_.front().bytes;
      slice.row = width;
      slice.count = std::min(left, most) * width;
      slices.push_back(slice);
    }
  }
}

}  // namespace rueda::core
