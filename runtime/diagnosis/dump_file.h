#pragma once
#include <string>
#include <vector>

#include "runtime/diagnosis/dump.h"

namespace rueda::core {

/// Returns the file for the record of `rank`: `path` with every {rank} replaced, or with ".<rank>" behind it if it has
/// none.
std::string dump_path(const std::string& path, int rank);
/// Writes the dump as JSON to `dump_path` of `path`. Replaces an older file in one step: a reader sees the whole record
/// or the older one. Returns kSystem, with the path and the reason, if it cannot be written.
Status write_dump(const RankDump& dump, const std::string& path);
/// Returns a few lines for a log: the operations in flight, and the last that are over.
std::vector<std::string> dump_lines(const RankDump& dump);
/// Returns what a rank is doing, in one line: its operations in flight, else its last ones; and what the program says.
std::string now_doing(const RankDump& dump);
/// Returns one line about the operations that were unfinished when an error ended the epoch.
std::string last_words(const RankDump& dump);

}  // namespace rueda::core
