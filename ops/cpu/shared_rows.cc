// What a sender of rows in shared memory posts, and how a receiver takes it:
//
//   slot of a sender   | rows begin, rows begin, ...   for receiver 0 | for receiver 1 | ...
//
// Another process has written all of it. A count is checked before it is multiplied (`Exchange::learn` knows the
// longest tensor there can be), and an address before it is read.
#include "ops/cpu/shared_rows.h"

#include <cstring>
#include <string>

namespace rueda::core {

size_t bytes_of_rows(const Exchange& exchange) {
  const size_t lists = exchange.same_for_all() ? 1 : static_cast<size_t>(exchange.size());
  return lists * exchange.tensors() * sizeof(SharedRows);
}

size_t index_of_rows(const Exchange& exchange, int receiver) {
  return exchange.same_for_all() ? 0 : static_cast<size_t>(receiver) * exchange.tensors();
}

std::vector<SharedRows> read_rows(std::span<const std::byte> posted, const Exchange& exchange) {
  std::vector<SharedRows> rows(exchange.tensors());
  const size_t first = index_of_rows(exchange, exchange.index()) * sizeof(SharedRows);
  std::memcpy(rows.data(), posted.data() + first, rows.size() * sizeof(SharedRows));
  return rows;
}

Status copy_rows(const Exchange& exchange, int sender, int rank, std::span<const SharedRows> rows,
                 std::span<const std::byte> arena) {
  const Exchange::Stretches to = exchange.incoming(sender);
  size_t at = 0;
  for (size_t t = 0; t < rows.size(); ++t) {
    const uint64_t bytes = static_cast<uint64_t>(rows[t].rows) * exchange.row_bytes(t);
    if (bytes == 0) continue;
    const Exchange::Stretch& stretch = to[at++];
    if (rows[t].begin > arena.size() || bytes > arena.size() - rows[t].begin) {
      return Status(Code::kPeerLost,
                    "rank " + std::to_string(rank) + " posted " + std::to_string(bytes) + " bytes of tensor " +
                        std::to_string(t) + " at " + std::to_string(rows[t].begin) + " of its " +
                        std::to_string(arena.size()) + " bytes",
                    rank);
    }
    if (stretch.data != nullptr) std::memcpy(stretch.data, arena.data() + rows[t].begin, bytes);
  }
  return {};
}

}  // namespace rueda::core
