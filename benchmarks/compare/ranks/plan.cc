// Reads a plan: the works of one turn, a line each, written by works.py. A line is words between blanks, so that no
// library for a format has to be compiled into each program.
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "benchmarks/compare/ranks/work.h"

namespace rueda::compare {
namespace {

// "64*1000,8": a thousand tensors of 64 elements and one of 8.
std::vector<size_t> counts_of(const std::string& text) {
  std::vector<size_t> counts;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t star = part.find('*');
    const size_t repeat = star == std::string::npos ? 1 : std::stoul(part.substr(star + 1));
    counts.insert(counts.end(), repeat, std::stoul(part.substr(0, star)));
  }
  return counts;
}

}  // namespace

std::vector<Work> read_plan(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read the plan " + path);
  std::vector<Work> works;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string mode, buffers, memory, counts;
    Work work;
    words >> work.name >> mode >> buffers >> memory >> work.codec >> work.seconds >> counts;
    if (!words) throw std::runtime_error("the plan " + path + " has a line that is not a work: " + line);
    work.packed = mode == "packed";
    work.cold = buffers == "cold";
    work.shared = memory == "shared";
    work.counts = counts_of(counts);
    works.push_back(work);
  }
  return works;
}

}  // namespace rueda::compare
