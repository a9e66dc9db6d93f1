#pragma once
#include <map>
#include <string>
#include <vector>

#include "benchmarks/rueda_perf/entry.h"

namespace rueda::perf {

/// What a run found, as a table while it goes and as JSON at its end. Rank 0's main thread.
class Report {
 public:
  /// The table goes to stdout; `json_path` may be empty.
  explicit Report(std::string json_path) : json_path_(std::move(json_path)) {}

  /// Before a run that may take long: whether the JSON can be written at its end. Makes the file, and changes nothing
  /// in one that is there. Throws std::runtime_error with the path and the reason.
  static void check_writable(const std::string& json_path);

  void add(const Entry& entry);
  /// A number of the whole run, by its name in the JSON.
  void note(const std::string& name, double value);
  void note(const std::string& name, const std::map<std::string, std::string>& texts);
  /// Writes the JSON. Returns the exit code: 1, after a sentence to stderr, if the file cannot be written.
  int finish() const;

 private:
  std::string json_path_;
  std::vector<Entry> entries_;
  std::map<std::string, double> numbers_;
  std::map<std::string, std::map<std::string, std::string>> texts_;
};

}  // namespace rueda::perf
