// Reads through the formatted output of the stream's buffer, because that turns a failed read(2) into a state of the
// stream. An iterator over the stream would throw it.
#include "runtime/base/file_text.h"

#include <fstream>
#include <sstream>

namespace rueda::core {

std::string file_text(const std::string& path) {
  const std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace rueda::core
