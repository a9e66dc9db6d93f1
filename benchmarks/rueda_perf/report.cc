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
double futex_us(const Row& row) {
  if (row.before.futex_us == 0 || row.after.futex_us == 0) return std::max(row.before.futex_us, row.after.futex_us);
  return std::min(row.before.futex_us, row.after.futex_us);
}
double per_futex(const Row& row) { return futex_us(row) > 0 ? row.time.p50 / futex_us(row) : 0; }

Json json_of(const Row& row) {
  Json object = {{"collective", row.collective},
                 {"bytes", row.bytes},
                 {"dtype", row.dtype},
                 {"codec", row.codec},
                 {"algorithm", row.algorithm},
                 {"ranks", row.ranks},
                 {"p50_us", row.time.p50},
                 {"p99_us", row.time.p99},
                 {"max_us", row.time.max},
                 {"algbw_GBps", algbw(row)},
                 {"busbw_GBps", busbw(row)},
                 {"line_ns", {row.before.line_ns, row.after.line_ns}},
                 {"correct", row.correct},
                 {"in_place", row.in_place},
                 {"cold", row.cold},
                 {"count", row.tensors},
                 {"iterations", row.iterations},
                 {"futex_us", futex_us(row)},
                 {"p50_per_futex", per_futex(row)}};
  if (!row.set.empty()) object["set"] = row.set;
  if (!row.flags.empty()) object["flags"] = row.flags;
  return object;
}

void print_header() {
  std::printf("%-13s %12s %6s %5s %-20s %-6s %11s %11s %11s %8s %8s %11s %7s %7s  %s\n", "collective", "bytes", "count",
              "dtype", "algorithm", "place", "p50 us", "p99 us", "max us", "algbw", "busbw", "line ns", "futex",
              "p50/fu", "check");
}

}  // namespace

double algbw(const Row& row) { return row.time.p50 > 0 ? static_cast<double>(row.bytes) / (row.time.p50 * 1e3) : 0; }

double busbw(const Row& row) {
  const double ranks = row.ranks;
  for (const char* const one_way : {"broadcast", "reduce", "send", "barrier"}) {
    if (row.collective == one_way) return algbw(row);
  }
  return algbw(row) * (row.collective == "allreduce" ? 2 : 1) * (ranks - 1) / ranks;
}

void Report::add(const Row& row) {
  if (rows_.empty()) print_header();
  rows_.push_back(row);
  char line[32];
  std::snprintf(line, sizeof line, "%.0f/%.0f", row.before.line_ns, row.after.line_ns);
  std::printf("%-13s %12zu %6zu %5s %-20s %-6s %11.2f %11.2f %11.2f %8.3f %8.3f %11s %7.1f %7.2f  %s%s%s\n",
              row.collective.c_str(), row.bytes, row.tensors, row.dtype.c_str(), row.algorithm.c_str(),
              row.in_place ? "in" : "out", row.time.p50, row.time.p99, row.time.max, algbw(row), busbw(row), line,
              futex_us(row), per_futex(row), row.correct ? "ok" : "WRONG", row.cold ? " cold" : "",
              row.flags.empty() ? "" : (" " + row.flags).c_str());
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
  for (const Row& row : rows_) object["results"].push_back(json_of(row));
  std::ofstream file(json_path_);
  file << object.dump(1) << "\n" << std::flush;
  if (file) return 0;
  std::fprintf(stderr, "rueda-perf: cannot write %s: %s\n", json_path_.c_str(), std::strerror(errno));
  return 1;
}

}  // namespace rueda::perf
