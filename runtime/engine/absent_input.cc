#include "runtime/engine/absent_input.h"

#include <algorithm>

#include "runtime/engine/identity.h"

namespace rueda::core {

AbsentInput::AbsentInput(const Metadata& metadata)
    : block_count_(static_cast<int64_t>(kBlockBytes / size_of(metadata.dtype))),
      identity_(kBlockBytes / sizeof(Line)),
      sink_(kBlockBytes / sizeof(Line)) {
  fill_identity(metadata, {identity_.front().bytes, kBlockBytes});
}

void AbsentInput::append(int64_t count, std::vector<Slice>& slices) const {
  while (count > 0) {
    Slice slice{};
    slice.in = identity_.front().bytes;
    slice.out = sink_.front().bytes;
    slice.count = std::min(count, block_count_);
    count -= slice.count;
    slices.push_back(slice);
  }
}

}  // namespace rueda::core
