// Cuts output into lines, with a bound on memory: a rank that never writes a newline would otherwise fill hvdrun.
//
//   ...............|...............|.....\n      kFirst (64 KiB), kMiddle (64 KiB), kLast
//
// A piece of exactly 64 KiB is held back until the next byte shows whether the line goes on, so that a line of exactly
// that length is whole and no empty kLast follows.

#include "launcher/line_cutter.h"

#include <fmt/format.h>

#include <algorithm>

namespace rueda::core::launcher {

void LineCutter::feed(std::string_view bytes, const Take& take) {
  while (!bytes.empty()) {
    const size_t newline = bytes.find('\n');
    const bool ends = newline != std::string_view::npos;
    const size_t room = kMaxLineBytes - pending_.size();
    const size_t length = std::min(ends ? newline : bytes.size(), room);
    pending_.append(bytes.substr(0, length));
    bytes.remove_prefix(length);
    if (ends && length == newline) {
      bytes.remove_prefix(1);
      cut(take, pending_.size(), true);
    } else if (pending_.size() == kMaxLineBytes && !bytes.empty()) {
      cut(take, pending_.size(), false);
    }
  }
}

void LineCutter::finish(const Take& take) {
  if (!pending_.empty() || in_long_line_) cut(take, pending_.size(), true);
}

void LineCutter::cut(const Take& take, size_t length, bool ends_line) {
  using Part = LinePiece::Part;
  const Part part =
      in_long_line_ ? (ends_line ? Part::kLast : Part::kMiddle) : (ends_line ? Part::kWhole : Part::kFirst);
  take({std::string_view(pending_).substr(0, length), part});
  in_long_line_ = !ends_line;
  pending_.clear();
}

std::string prefixed(const LinePiece& piece, int rank, std::string_view stream, std::string_view time) {
  using Part = LinePiece::Part;
  const bool continued = piece.part == Part::kMiddle || piece.part == Part::kLast;
  const bool continues = piece.part == Part::kMiddle || piece.part == Part::kFirst;
  return fmt::format("{}[{}]<{}>:{}{}{}\n", time, rank, stream, continued ? "[continued] " : "", piece.text,
                     continues ? " [continues]" : "");
}

}  // namespace rueda::core::launcher
