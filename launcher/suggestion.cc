// The usual table of edit distances, three rows of it: a swap of neighbours needs the row before the last one.
//
//             b[j-2]    b[j-1]    b[j]
//   before     swap
//   above                replace   insert
//   row                  delete    here

#include "launcher/suggestion.h"

#include <algorithm>

namespace rueda::core::launcher {
namespace {

// Insert, delete, replace and swap of neighbours cost one each; rows of the usual table, the last three kept.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view typed, const std::vector<std::string>& known) {
  std::string best;
  size_t best_distance = SIZE_MAX;
  for (const auto& name : known) {
    const size_t d = distance(typed, name);
    if (d < best_distance && d * 3 <= std::max(typed.size(), name.size())) {
      best = name;
      best_distance = d;
    }
  }
  return best;
}

}  // namespace rueda::core::launcher
