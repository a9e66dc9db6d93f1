#include "runtime/engine/absent_input.h"

#include <algorithm>

#include "runtime/agreement/neutral.h"

namespace rueda::core {

AbsentInput::AbsentInput(const Metadata& metadata, int members)
    : dealt_to_(metadata.kind == OpKind::kReducescatter ? members : 1),
      block_count_(std::max(static_cast<int64_t>(kBlockBytes / size_of(metadata.dtype)), dealt_to_)) {
  const size_t bytes = static_cast<size_t>(block_count_) * size_of(metadata.dtype);
  identity_.resize((bytes + sizeof(Line) - 1) / sizeof(Line));
  sink_.resize(identity_.size());
  fill_neutral(metadata, {identity_.front().bytes, bytes});
}

/// Whole rows go round the members evenly as long as a slice has a multiple of their number; only the last slice of
/// each column may have others. All columns are alike, so the rows may be cut at any of them.
///
///   5 rows, 2 members   | 0 0 0 | 0 |       a slice of 4 rows, then one of the rest: member 0 has 3 rows, member 1 has
///   2
///                       | 0 0 0 | 0 |
void AbsentInput::append(int64_t count, int64_t row, std::vector<Slice>& slices) const {
  const int64_t rows = count / row;
  int64_t width = 0;
  for (int64_t column = 0; column < row; column += width) {
    width = std::min(row - column, block_count_ / dealt_to_);
    const int64_t most = block_count_ / width / dealt_to_ * dealt_to_;
    for (int64_t left = rows; left > 0; left -= std::min(left, most)) {
      Slice slice{};
      slice.in = identity_.front().bytes;
      slice.out = sink_.front().bytes;
      slice.row = width;
      slice.count = std::min(left, most) * width;
      slices.push_back(slice);
    }
  }
}

}  // namespace rueda::core
