// Reads the images: a line for each, 64 grey values from 0 to 16 and the digit, compressed with gzip or not.

#include "digits.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <stdexcept>
#include <string_view>

namespace {

constexpr int kBrightest = 16;

struct Close {
  void operator()(gzFile_s* file) const { gzclose(file); }
};

[[noreturn]] void fail(const std::string& path, size_t line, const std::string& what) {
  throw std::runtime_error(path + ", line " + std::to_string(line) + ": " + what);
}

// zlib returns the lines before the damage in a truncated file, and reports the error only afterwards.
void require_whole(const std::string& path, gzFile_s* file) {
  int error = Z_OK;
  const char* const sentence = gzerror(file, &error);
  if (error != Z_OK && error != Z_STREAM_END) throw std::runtime_error(path + " is damaged: " + sentence);
}

// Takes one number and the comma after it off the front of `text`. Returns -1 if there is no number from 0 to `limit`.
int take_number(std::string_view& text, int limit) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0 || value > limit) return -1;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (!text.empty() && text.front() == ',') text.remove_prefix(1);
  return value;
}

void read_line(const std::string& path, size_t number, std::string_view line, Digits& digits) {
  for (size_t pixel = 0; pixel < Digits::kPixels; ++pixel) {
    const int grey = take_number(line, kBrightest);
    if (grey < 0) fail(path, number, "pixel " + std::to_string(pixel) + " is not a number from 0 to 16");
    digits.pixels.push_back(static_cast<float>(grey) / kBrightest);
  }
  const int label = take_number(line, 9);
  if (label < 0 || !line.empty())
    fail(path, number, "expected a digit after 64 pixels, found '" + std::string(line) + "'");
  digits.labels.push_back(label);
}

}  // namespace

Digits Digits::pick(const std::vector<size_t>& images) const {
  Digits picked;
  for (const size_t image : images) {
    const auto first = pixels.begin() + static_cast<std::ptrdiff_t>(image * kPixels);
    picked.pixels.insert(picked.pixels.end(), first, first + kPixels);
    picked.labels.push_back(labels[image]);
  }
  return picked;
}

Digits read_digits(const std::string& path) {
  const std::unique_ptr<gzFile_s, Close> file(gzopen(path.c_str(), "rb"));
  if (!file) throw std::runtime_error("cannot open " + path + "; name the file with --data");
  Digits digits;
  std::array<char, 1024> buffer{};
  while (gzgets(file.get(), buffer.data(), static_cast<int>(buffer.size())) != nullptr) {
    require_whole(path, file.get());
    std::string_view line(buffer.data());
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
    read_line(path, digits.count() + 1, line, digits);
  }
  require_whole(path, file.get());
  if (digits.count() == 0) throw std::runtime_error(path + ": no images in it");
  return digits;
}

SplitDigits split(const Digits& all) {
  std::vector<size_t> train;
  std::vector<size_t> test;
  for (size_t image = 0; image < all.count(); ++image) (image % 5 == 0 ? test : train).push_back(image);
  return {all.pick(train), all.pick(test)};
}
