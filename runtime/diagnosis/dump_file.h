#pragma once
#include <string>
#include <vector>

#include "runtime/diagnosis/dump.h"

namespace rueda::core {

/// Where the record of `rank` goes: `path` with every {rank} replaced, or with ".<rank>" behind it where there is none.
std::string dump_path(const std::string& path, int rank);
/// Writes the dump as JSON to its path, replacing what was there at once: a reader sees all of it or the file before.
/// kSystem: names the path and why.
Status write_dump(const RankDump& dump, const std::string& path);
/// What a dump says in a few lines for a log: operations in flight, and the last that are over.
std::vector<std::string> dump_lines(const RankDump& dump);
/// What a rank is doing, in one line: what it has in flight, else its last operations; and what the program says.
std::string now_doing(const RankDump& dump);
/// One line about the operations that an error found unfinished.
std::string last_words(const RankDump& dump);

}  // namespace rueda::core
