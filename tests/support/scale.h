#pragma once
#include <cstdint>
#include <vector>

namespace rueda::core {

/// A large count or number of rounds, smaller where a sanitizer makes every access many times slower: the build says by
/// how much.
inline int64_t scaled_down(int64_t count) { return count / RUEDA_TEST_SCALE + (RUEDA_TEST_SCALE > 1 ? 1 : 0); }

/// All of many cases, or under a sanitizer every fifth, beginning at one that goes round with `turn`: loops of 2, 3, 4,
/// 6 or 8 cases within the list all lose and keep some.
template <typename Case>
std::vector<Case> thinned(const std::vector<Case>& all, size_t turn) {
  if (RUEDA_TEST_SCALE == 1 || all.size() < 64) return all;
  std::vector<Case> some;
  for (size_t i = turn % 5; i < all.size(); i += 5) some.push_back(all[i]);
  return some;
}

}  // namespace rueda::core
