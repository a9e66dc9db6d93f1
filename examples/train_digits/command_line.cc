// Reads the flags of train_digits. Each error names the flag and its value.

#include "command_line.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <stdexcept>
#include <string_view>

namespace {

int64_t number(std::string_view flag, std::string_view text, int64_t lowest, int64_t highest) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < lowest || value > highest) {
    throw std::invalid_argument(std::string(flag) + " '" + std::string(text) + "' is not a number from " +
                                std::to_string(lowest) + " to " + std::to_string(highest));
  }
  return value;
}

std::string beside_the_program(const std::string& file) {
  std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  const std::string_view program(path.data(), length > 0 ? static_cast<size_t>(length) : 0);
  const size_t slash = program.rfind('/');
  return slash == std::string_view::npos ? file : std::string(program.substr(0, slash + 1)) + file;
}

}  // namespace

CommandLine read_command_line(int argc, char** argv) {
  CommandLine line;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    const auto value = [&]() -> std::string_view {
      if (i + 1 == argc) throw std::invalid_argument(std::string(flag) + " needs a value");
      return argv[++i];
    };
    if (flag == "--epochs") {
      line.epochs = static_cast<int>(number(flag, value(), 1, 10000));
    } else if (flag == "--seed") {
      line.seed = static_cast<uint32_t>(number(flag, value(), 0, UINT32_MAX));
    } else if (flag == "--fp16") {
      line.fp16 = true;
    } else if (flag == "--data") {
      line.data = value();
    } else if (flag == "--help" || flag == "-h") {
      line.help = true;
    } else {
      throw std::invalid_argument("unknown argument '" + std::string(flag) + "'");
    }
  }
  if (line.data.empty()) line.data = beside_the_program("digits.csv.gz");
  return line;
}
