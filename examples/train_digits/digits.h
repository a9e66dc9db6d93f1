#pragma once
#include <cstddef>
#include <string>
#include <vector>

/// Images of handwritten digits and their labels.
struct Digits {
  static constexpr size_t kPixels = 64;  ///< 8 x 8
  static constexpr size_t kClasses = 10;
  std::vector<float> pixels;  ///< kPixels per image, 0 to 1
  std::vector<int> labels;    ///< by image, 0 to 9
  size_t count() const { return labels.size(); }
  /// Returns the images with the indices `images`, in that order.
  Digits pick(const std::vector<size_t>& images) const;
};

/// Reads digits.csv.gz (plain text works too). Throws std::runtime_error that names file, line and what is wrong.
Digits read_digits(const std::string& path);

/// Splits the images: every fifth is for testing, the others are for training.
struct SplitDigits {
  Digits train;
  Digits test;
};
SplitDigits split(const Digits& all);
