// The figures, as a table on stdout and as JSON. The table is printed line by line while the run goes on, since a sweep
// may take minutes; the JSON is written at the end, which is why its path is checked at the beginning.
#include "benchmarks/rueda_perf/report.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace rueda::perf {
namespace {

using Json = nlohmann::ordered_json;

// Of a pair, the smaller: a preemption only makes a round trip longer. 0 stands for not measured.
double futex_us(const Entry& entry) {
  if (entry.before.futex_us == 0 || entry.after.futex_us == 0)
    return std::max(entry.before.futex_us, entry.after.futex_us);
  return std::min(entry.before.futex_us, entry.after.futex_us);
}
double per_futex(const Entry& entry) { return futex_us(entry) > 0 ? entry.time.p50 / futex_us(entry) : 0; }

Json json_of(const Entry& entry) {
  Json object = {{"collective", entry.collective},
                 {"bytes", entry.bytes},
                 {"dtype", entry.dtype},
                 {"codec", entry.codec},
                 {"algorithm", entry.algorithm},
                 {"ranks", entry.ranks},
                 {"p50_us", entry.time.p50},
                 {"p99_us", entry.time.p99},
                 {"max_us", entry.time.max},
                 {"algbw_GBps", algbw(entry)},
                 {"busbw_GBps", busbw(entry)},
                 {"line_ns", {entry.before.line_ns, entry.after.line_ns}},
                 {"correct", entry.correct},
                 {"in_place", entry.in_place},
                 {"cold", entry.cold},
                 {"memory", entry.memory},
                 {"count", entry.tensors},
                 {"iterations", entry.iterations},
                 {"futex_us", futex_us(entry)},
                 {"p50_per_futex", per_futex(entry)}};
  if (!entry.set.empty()) object["set"] = entry.set;
  if (!entry.flags.empty()) object["flags"] = entry.flags;
  return object;
}

void print_header() {
  std::printf("%-13s %12s %6s %5s %-20s %-6s %11s %11s %11s %8s %8s %11s %7s %7s  %s\n", "collective", "bytes", "count",
              "dtype", "algorithm", "place", "p50 us", "p99 us", "max us", "algbw", "busbw", "line ns", "futex",
              "p50/fu", "check");
}

}  // namespace

double algbw(const Entry& entry) {
  return entry.time.p50 > 0 ? static_cast<double>(entry.bytes) / (entry.time.p50 * 1e3) : 0;
}

// So many bytes must cross each link at the least: 2 (N-1)/N of an all-reduce, (N-1)/N if ranks have parts.
double busbw(const Entry& entry) {
  const double ranks = entry.ranks;
  for (const char* const one_way : {"broadcast", "reduce", "send", "barrier"}) {
    if (entry.collective == one_way) return algbw(entry);
  }
  return algbw(entry) * (entry.collective == "allreduce" ? 2 : 1) * (ranks - 1) / ranks;
}

void Report::add(const Entry& entry) {
  if (entries_.empty()) print_header();
  entries_.push_back(entry);
  char line[32];
  std::snprintf(line, sizeof line, "%.0f/%.0f", entry.before.line_ns, entry.after.line_ns);
  std::printf("%-13s %12zu %6zu %5s %-20s %-6s %11.2f %11.2f %11.2f %8.3f %8.3f %11s %7.1f %7.2f  %s%s%s%s\n",
              entry.collective.c_str(), entry.bytes, entry.tensors, entry.dtype.c_str(), entry.algorithm.c_str(),
              entry.in_place ? "in" : "out", entry.time.p50, entry.time.p99, entry.time.max, algbw(entry), busbw(entry),
              line, futex_us(entry), per_futex(entry), entry.correct ? "ok" : "WRONG", entry.cold ? " cold" : "",
              entry.memory == "shared" ? " shared" : "", entry.flags.empty() ? "" : (" " + entry.flags).c_str());
  std::fflush(stdout);
}

void Report::note(const std::string& name, double value) {
  numbers_[name] = value;
  std::printf("%s %.4g\n", name.c_str(), value);
  std::fflush(stdout);
}

void Report::note(const std::string& name, const std::map<std::string, std::string>& texts) {
  texts_[name] = texts;
  for (const auto& [key, text] : texts) std::printf("%s %s: %s\n", name.c_str(), key.c_str(), text.c_str());
  std::fflush(stdout);
}

// Opens for appending, which makes the file but changes nothing in one that is there.
void Report::check_writable(const std::string& json_path) {
  if (json_path.empty() || std::ofstream(json_path, std::ios::app)) return;
  throw std::runtime_error("cannot write " + json_path + ": " + std::strerror(errno));
}

int Report::finish() const {
  if (json_path_.empty()) return 0;
  Json object = Json::object();
  for (const auto& [name, value] : numbers_) object[name] = value;
  for (const auto& [name, texts] : texts_) object[name] = texts;
  object["results"] = Json::array();
  for (const Entry& entry : entries_) object["results"].push_back(json_of(entry));
  std::ofstream file(json_path_);
  file << object.dump(1) << "\n" << std::flush;
  if (file) return 0;
  std::fprintf(stderr, "rueda-perf: cannot write %s: %s\n", json_path_.c_str(), std::strerror(errno));
  return 1;
}

}  // namespace rueda::perf
