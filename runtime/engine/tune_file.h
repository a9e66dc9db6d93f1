#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/agreement/tuner.h"
#include "runtime/base/status.h"

namespace rueda::core {

/// What choices depend on beside the batches: a tune file holds for jobs with equal facts only.
struct TuneFacts {
  std::string processor;  ///< of rank 0's host, as the system calls it
  std::string vectors;    ///< `name_of(Isa)`
  int cores = 1;          ///< `usable_cores`
  uint64_t slot_bytes = 0;
  std::vector<int> hosts;  ///< how many ranks each has
  friend bool operator==(const TuneFacts&, const TuneFacts&) = default;
};
/// The facts of this process's machine, without `slot_bytes` and `hosts`.
TuneFacts facts_of_machine();
/// Returns what differs, as "cores: 2 in the file, 4 here"; empty if nothing does. Pure.
std::string difference(const TuneFacts& file, const TuneFacts& here);

/// A choice with the algorithm's name: its number may be another in another build.
struct NamedChoice {
  TunedChoice choice;  ///< `variant.algorithm` means nothing
  std::string algorithm;
};

/// The content of a tune file.
struct TuneFile {
  TuneFacts facts;
  std::vector<NamedChoice> choices;
};
inline constexpr size_t kMostTuneFileBytes = 1 << 20;
inline constexpr size_t kMostTunedChoices = 2048;
/// Text that `tune_file_from_json` takes. Pure.
std::string to_json(const TuneFile& file);
/// Returns kInvalidArgument, with the reason, if the text is not a tune file, or a value in it cannot be. Pure.
Result<TuneFile> tune_file_from_json(std::string_view text);

/// Returns the text of the file at `path`, empty if there is none. Returns kSystem, with the path and reason, if it
/// cannot be read or is longer than kMostTuneFileBytes.
Result<std::string> read_tune_file(const std::string& path);
/// Replaces the file at `path` in one step: a reader sees the old text or the new one. Returns kSystem, with the path
/// and reason, if it cannot be written.
Status write_tune_file(const std::string& path, const std::string& text);

}  // namespace rueda::core
