#pragma once
#include <cstdint>
#include <vector>

namespace rueda::core {

/// A large count or number of rounds, smaller where a sanitizer makes every access many times slower: the build says by
/// how much.
inline int64_t scaled_down(int64_t count) { return count / RUEDA_TEST_SCALE + (RUEDA_TEST_SCALE > 1 ? 1 : 0); }

/// False under a sanitizer: one case of each kind shows there what it looks for.
inline constexpr bool kThorough = RUEDA_TEST_SCALE == 1;

/// All of many cases, or under a sanitizer every eleventh, beginning at one that goes round with `turn`: loops of 2 to
/// 10 cases within the list all lose and keep some.
template <typename Case>
std::vector<Case> thinned(const std::vector<Case>& all, size_t turn) {
  if (kThorough || all.size() < 64) return all;
  std::vector<Case> some;
  for (size_t i = turn % 11; i < all.size(); i += 11) some.push_back(all[i]);
  return some;
}

}  // namespace rueda::core
