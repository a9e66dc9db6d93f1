// Runs an exchange (`shm_exchange` or `direct_exchange`) as one phase of a larger batch, on bytes instead of tensors.
//
//   stamps of the whole batch   | phase 0 | phase 1 | phase 2 | ...      each as many as one exchange takes
//
// To the exchange a phase looks like a batch of its own: one tensor of u8 with rows of one byte, the same team, its own
// range of stamps. The ranges must not overlap: a peer may still be in the phase before, and only a larger stamp tells
// its words of that phase from those of this one.
#include "ops/cpu/byte_exchange.h"

#include <algorithm>
#include <numeric>

namespace rueda::core {

namespace {

/// Makes room for what arrives; with one tensor there is one call.
class IntoVector : public Arrivals {
 public:
  explicit IntoVector(std::vector<std::byte>& bytes) : bytes_(bytes) {}
  std::byte* place(size_t, std::span<const int64_t> rows) override {
    bytes_.resize(static_cast<size_t>(std::accumulate(rows.begin(), rows.end(), int64_t{0})));
    return bytes_.data();
  }

 private:
  std::vector<std::byte>& bytes_;
};

}  // namespace

ByteExchange::ByteExchange(const Call& call, Mesh& mesh, Deadline deadline, int phases, Run exchange)
    : call_(call),
      mesh_(mesh),
      deadline_(deadline),
      stamps_(call.choice.stamps / static_cast<uint64_t>(phases)),
      run_(exchange),
      position_(static_cast<int>(std::count_if(call.team->ranks.begin(), call.team->ranks.end(), [&](int rank) {
        return rank < call.team->ranks[static_cast<size_t>(call.team->index)];
      }))) {}

Status ByteExchange::run(int phase, OpKind kind, std::span<const std::byte> bytes, std::span<const int64_t> parts,
                         std::vector<std::byte>& arrived) const {
  // Rows of one byte: `parts` then counts bytes for each member, in the order of ranks.
  const Slice slice{bytes.data(), nullptr, static_cast<int64_t>(bytes.size()), 1, parts.data()};
  IntoVector arrivals(arrived);
  Call call;
  call.kind = kind;
  call.dtype = Dtype::kU8;
  call.slices = {&slice, 1};
  call.count = slice.count;
  call.choice = call_.choice;
  call.choice.stamps = stamps_;
  call.stamp = call_.stamp + static_cast<uint64_t>(phase) * stamps_;
  call.team = call_.team;
  call.arrivals = &arrivals;
  return run_(call, mesh_, deadline_);
}

}  // namespace rueda::core
