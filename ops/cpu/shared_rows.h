#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/exchange.h"
#include "runtime/base/status.h"

namespace rueda::core {

/// Rows of one tensor for one receiver, as their sender posts them.
struct SharedRows {
  int64_t rows = 0;
  uint64_t begin = 0;  ///< bytes from the base of the sender's arena
};

/// Bytes that a sender posts: a list for each receiver, or one for all if all get the same.
size_t bytes_of_rows(const Exchange& exchange);

/// Returns where the list for `receiver` begins in what a sender posts, in numbers of `SharedRows`.
size_t index_of_rows(const Exchange& exchange, int receiver);

/// Copies the own list out of what a sender has posted, `bytes_of_rows` or more. The sender may write there at any
/// time, so only the copy is checked: its counts by `Exchange::learn`, its addresses by `copy_rows`.
std::vector<SharedRows> read_rows(std::span<const std::byte> posted, const Exchange& exchange);

/// Copies the rows of `sender`, which is `rank`, from its arena to their destinations. `Exchange::learn` has taken
/// their counts, and `Exchange::place` has been called. Returns kPeerLost with `rank` if rows would lie outside the
/// arena.
Status copy_rows(const Exchange& exchange, int sender, int rank, std::span<const SharedRows> rows,
                 std::span<const std::byte> arena);

}  // namespace rueda::core
