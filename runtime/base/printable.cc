// Makes text harmless for a terminal. Control characters can move the cursor, change the title or hide lines; those
// above 0x80 do the same in terminals that decode UTF-8, where they are two bytes: C2 80 to C2 9F.
#include "runtime/base/printable.h"

namespace rueda::core {

std::string printable(std::string_view text, std::string_view kept) {
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool second = byte >= 0x80 && byte < 0xa0 && shown.ends_with('\xc2');
    const bool control = (byte < 0x20 && kept.find(c) == std::string_view::npos) || byte == 0x7f;
    // Both bytes become one "?".
    if (second) shown.pop_back();
    shown += second || control ? '?' : c;
  }
  return shown;
}

}  // namespace rueda::core
