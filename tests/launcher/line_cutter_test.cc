// Lines cut from a stream that comes in portions of every size.

#include "launcher/line_cutter.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

using namespace rueda::core::launcher;

namespace {

using Part = LinePiece::Part;
struct Taken {
  std::string text;
  Part part;
  bool operator==(const Taken&) const = default;
};

// Feeds `bytes` in portions of `step` and then ends the stream. Returns all pieces.
std::vector<Taken> cut(const std::string& bytes, size_t step) {
  LineCutter cutter;
  std::vector<Taken> taken;
  const auto take = [&](const LinePiece& piece) { taken.push_back({std::string(piece.text), piece.part}); };
  for (size_t at = 0; at < bytes.size(); at += step) cutter.feed(std::string_view(bytes).substr(at, step), take);
  cutter.finish(take);
  return taken;
}

}  // namespace

TEST_CASE("lines come out whole whatever portions they are fed in") {
  const std::string bytes("one\n\ntwo\0with\xff zero\nlast", 24);
  const std::vector<Taken> expected = {{"one", Part::kWhole},
                                       {"", Part::kWhole},
                                       {std::string("two\0with\xff zero", 14), Part::kWhole},
                                       {"last", Part::kWhole}};
  for (size_t step = 1; step <= bytes.size(); ++step) {
    INFO("portions of " << step);
    CHECK(cut(bytes, step) == expected);
  }
}

TEST_CASE("a stream that ends with a newline has no further line") {
  CHECK(cut("one\n", 3) == std::vector<Taken>{{"one", Part::kWhole}});
  CHECK(cut("", 1).empty());
}

TEST_CASE("the pieces of a long line make up the line") {
  for (const size_t extra :
       {size_t{0}, size_t{1}, kMaxLineBytes - 1, kMaxLineBytes, kMaxLineBytes + 1, 3 * kMaxLineBytes}) {
    std::string line;
    for (size_t i = 0; i < kMaxLineBytes + extra; ++i) line += static_cast<char>('a' + i % 23);
    for (const size_t step : {size_t{4096}, size_t{65536}, line.size() + 5}) {
      const auto taken = cut(line + "\nnext\n", step);
      std::string together;
      for (size_t i = 0; i + 1 < taken.size(); ++i) {
        CHECK(taken[i].text.size() <= kMaxLineBytes);
        together += taken[i].text;
      }
      INFO("extra " << extra << ", portions of " << step);
      CHECK(together == line);
      CHECK(taken.size() == (line.size() + kMaxLineBytes - 1) / kMaxLineBytes + 1);
      CHECK(taken.front().part == (extra == 0 ? Part::kWhole : Part::kFirst));
      CHECK(taken.back() == Taken{"next", Part::kWhole});
    }
  }
}

TEST_CASE("prefixes name rank and stream and mark pieces of a long line") {
  CHECK(prefixed({"text", Part::kWhole}, 3, "stdout", "") == "[3]<stdout>:text\n");
  CHECK(prefixed({"text", Part::kFirst}, 3, "stderr", "T ") == "T [3]<stderr>:text [continues]\n");
  CHECK(prefixed({"text", Part::kMiddle}, 0, "stdout", "") == "[0]<stdout>:[continued] text [continues]\n");
  CHECK(prefixed({"text", Part::kLast}, 0, "stdout", "") == "[0]<stdout>:[continued] text\n");
}
