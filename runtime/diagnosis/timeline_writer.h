#pragma once
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/diagnosis/timeline_file.h"
#include "runtime/diagnosis/timeline_json.h"

namespace rueda::core {

/// Writes the records of ranks to one file. Owned by one thread.
class TimelineWriter {
 public:
  using Rank = TimelineJson::Rank;
  /// `ranks` are all of the job, by number. Errors like `TimelineFile::create`.
  static Result<std::unique_ptr<TimelineWriter>> open(const std::string& path, std::vector<Rank> ranks,
                                                      int64_t first_bytes = TimelineFile::kFirstBytes);
  /// Adds records, as timeline_record.h writes them. `shift` turns the rank's clock into rank 0's. Returns
  /// kInvalidArgument if these are not records, and kSystem if the file cannot be written; it then takes no more.
  Status add(int rank, std::span<const std::byte> records, std::chrono::nanoseconds shift);

 private:
  TimelineWriter(std::unique_ptr<TimelineFile> file, std::vector<Rank> ranks)
      : file_(std::move(file)), ranks_(std::move(ranks)) {}
  void name(int rank, uint32_t set, std::string_view of);

  std::unique_ptr<TimelineFile> file_;
  const std::vector<Rank> ranks_;
  std::set<int> named_;
  std::set<std::pair<int, uint32_t>> tracks_;
  TimelineJson json_;
};

}  // namespace rueda::core
