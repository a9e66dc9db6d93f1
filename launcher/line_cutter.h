#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace rueda::core::launcher {

/// Longer lines leave in pieces of this size.
inline constexpr size_t kMaxLineBytes = 64u << 10;

/// A line without its newline, or a piece of a long one.
struct LinePiece {
  enum class Part { kWhole, kFirst, kMiddle, kLast };
  std::string_view text;
  Part part = Part::kWhole;
};

/// Cuts the bytes of one stream into lines; any byte but the newline is text. A value of one thread.
class LineCutter {
 public:
  using Take = std::function<void(const LinePiece&)>;
  /// Calls `take` for each line or piece that is complete; its text is borrowed for the call.
  void feed(std::string_view bytes, const Take& take);
  /// The stream has ended: what is left is a line as well.
  void finish(const Take& take);

 private:
  void cut(const Take& take, size_t length, bool ends_line);
  std::string pending_;
  bool in_long_line_ = false;
};

/// `[rank]<stream>:text\n`, behind `time` unless that is empty. Pieces of a long line say that they are.
std::string prefixed(const LinePiece& piece, int rank, std::string_view stream, std::string_view time);

}  // namespace rueda::core::launcher
