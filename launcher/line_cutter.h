#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace rueda::core::launcher {

/// Longer lines are cut into pieces of this size.
inline constexpr size_t kMaxLineBytes = 64u << 10;

/// A line without its newline, or a piece of a long one.
struct LinePiece {
  enum class Part { kWhole, kFirst, kMiddle, kLast };
  std::string_view text;
  Part part = Part::kWhole;
};

/// Cuts the bytes of one stream into lines. Each byte except the newline is text. One thread uses it.
class LineCutter {
 public:
  using Take = std::function<void(const LinePiece&)>;
  /// Calls `take` for each line or piece that is complete. `take` borrows the text for the call.
  void feed(std::string_view bytes, const Take& take);
  /// The stream has ended: passes on what is left as a line, even without a newline.
  void finish(const Take& take);

 private:
  void cut(const Take& take, size_t length, bool ends_line);
  std::string pending_;
  bool in_long_line_ = false;
};

/// Returns `[rank]<stream>:text\n` after `time`, which may be empty. Marks pieces of a long line as such.
std::string prefixed(const LinePiece& piece, int rank, std::string_view stream, std::string_view time);

}  // namespace rueda::core::launcher
