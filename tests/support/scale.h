#pragma once
#include <cstdint>
#include <vector>

namespace rueda::core {

/// A large count or number of rounds, smaller where a sanitizer makes every access many times slower: the build says by
/// how much.
inline int64_t scaled_down(int64_t count) { return count / RUEDA_TEST_SCALE + (RUEDA_TEST_SCALE > 1 ? 1 : 0); }

/// False under a sanitizer: one case of each kind shows there what it looks for.
inline constexpr bool kThorough = RUEDA_TEST_SCALE == 1;

/// All of these cases, or under a sanitizer some of many, beginning at one that goes round with `turn`: of loops of 2
/// to 4 or 6 to 10 cases within the list all lose and keep some.
template <typename Case>
std::vector<Case> thinned(const std::vector<Case>& all, size_t turn) {
  if (kThorough || all.size() <= 8) return all;
  const size_t step = all.size() < 64 ? 5 : 11;
  std::vector<Case> some;
  for (size_t i = turn % step; i < all.size(); i += step) some.push_back(all[i]);
  return some;
}

}  // namespace rueda::core
