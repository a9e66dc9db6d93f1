// Turns the records of all ranks into one file. A rank is named with its first record, and the tracks of a process set
// with the first record of that set. The record with a set's name may have been lost; its tracks then carry the number.
#include "runtime/diagnosis/timeline_writer.h"

#include <spdlog/fmt/fmt.h>

namespace rueda::core {

Result<std::unique_ptr<TimelineWriter>> TimelineWriter::open(const std::string& path, std::vector<Rank> ranks,
                                                             int64_t first_bytes) {
  Result<std::unique_ptr<TimelineFile>> file = TimelineFile::create(path, first_bytes);
  if (!file.ok()) return file.status();
  return std::unique_ptr<TimelineWriter>(new TimelineWriter(std::move(file).value(), std::move(ranks)));
}

void TimelineWriter::name(int rank, uint32_t set, std::string_view of) {
  const std::pair<int, uint32_t> tracks(rank, set);
  if (tracks_.contains(tracks)) return;
  if (named_.insert(rank).second) json_.name_rank(rank, ranks_[static_cast<size_t>(rank)]);
  const bool untold = of.empty() && set != 0;  // the record with the name of the set was lost
  json_.name_tracks(rank, set, untold ? fmt::format(" of a process set ({} on rank 0)", set) : std::string(of));
  tracks_.insert(tracks);
}

Status TimelineWriter::add(int rank, std::span<const std::byte> records, std::chrono::nanoseconds shift) {
  const bool whole = read_records(records, shift, [&](const TimelineRecord& record) {
    if (const auto* set = std::get_if<SetRecord>(&record)) name(rank, set->set, set->words);
    if (const auto* negotiated = std::get_if<NegotiatedRecord>(&record)) name(rank, negotiated->set, "");
    if (const auto* batch = std::get_if<BatchRecord>(&record)) name(rank, batch->set, "");
    json_.add(rank, record);
  });
  const Status written = file_->append(json_.text());
  json_.clear();
  RUEDA_RETURN_IF_ERROR(written);
  return whole ? Status()
               : Status(Code::kInvalidArgument, fmt::format("rank {} sent a broken piece of timeline", rank));
}

}  // namespace rueda::core
