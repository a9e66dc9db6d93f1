#pragma once
#include <regex>
#include <string>
#include <vector>

#include "tests/support/scale.h"

namespace rueda::test {

/// Epochs of train_digits: its default, or under a sanitizer as few as it needs.
inline constexpr size_t kEpochs = core::kThorough ? 20 : 8;

/// Returns the first group of every match of `pattern` in `text`.
inline std::vector<std::string> all_matches(const std::string& text, const std::string& pattern) {
  std::vector<std::string> found;
  const std::regex expression(pattern);
  for (std::sregex_iterator at(text.begin(), text.end(), expression), end; at != end; ++at) found.push_back((*at)[1]);
  return found;
}

}  // namespace rueda::test
