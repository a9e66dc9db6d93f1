// What of a job's key a rank shows: a core dump, its log, its flight record, its command line and its environment.
//
// The ranks are whole processes that have run operations over TLS and over shared memory. What a core dump would hold
// is read from their memory as core(5) describes it: every readable mapping, unless it is marked "dd" (do not dump).
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/base/unique_fd.h"
#include "tests/bindings/operations.h"
#include "tests/support/rank_processes.h"
#include "tests/support/temporary_folder.h"

namespace rueda::test {
namespace {

struct Mapping {
  uintptr_t begin = 0, end = 0;
  std::string text;  ///< its line of /proc/PID/smaps
  bool readable = false;
  bool dumped = true;
};

/// The mappings of a process, with what the kernel says of each.
std::vector<Mapping> mappings_of(pid_t pid) {
  std::ifstream smaps("/proc/" + std::to_string(pid) + "/smaps");
  std::vector<Mapping> mappings;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long begin = 0, end = 0;
    char mode[5] = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s ", &begin, &end, mode) == 3) {
      mappings.push_back({begin, end, line, mode[0] == 'r', true});
    } else if (line.rfind("VmFlags:", 0) == 0) {
      std::istringstream flags(line.substr(8));
      for (std::string flag; flags >> flag;) {
        if (flag == "dd" || flag == "io") mappings.back().dumped = false;
      }
    }
  }
  return mappings;
}

std::string hex_of(const std::string& bytes) {
  std::string hex;
  for (const char byte : bytes) {
    for (const int digit : {(byte >> 4) & 15, byte & 15}) hex += "0123456789abcdef"[digit];
  }
  return hex;
}

/// Whether a text holds the key, as it is or in hex.
bool shows(const std::string& text, const std::string& key) {
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return text.find(key) != std::string::npos || lower.find(hex_of(key)) != std::string::npos;
}

/// Whether the process has any page of these addresses, in memory or swapped out. Most of a reservation has none, and
/// to read it would take a minute and give it pages.
bool has_pages(int pagemap, uintptr_t begin, size_t bytes) {
  constexpr uint64_t kPresentOrSwapped = uint64_t{3} << 62;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<uint64_t> entries((bytes + page - 1) / page);
  const size_t wanted = entries.size() * sizeof entries[0];
  const auto at = static_cast<off_t>(begin / page * sizeof entries[0]);
  REQUIRE(::pread(pagemap, entries.data(), wanted, at) == static_cast<ssize_t>(wanted));
  return std::any_of(entries.begin(), entries.end(), [](uint64_t entry) { return (entry & kPresentOrSwapped) != 0; });
}

/// The mappings with the key among those that a core dump has, or among those that it leaves out.
std::vector<std::string> mappings_with(const std::string& key, pid_t pid, bool dumped) {
  const core::UniqueFd memory(::open(("/proc/" + std::to_string(pid) + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(memory.valid());
  const core::UniqueFd pagemap(::open(("/proc/" + std::to_string(pid) + "/pagemap").c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(pagemap.valid());
  const std::string hex = hex_of(key);
  std::vector<std::string> found;
  constexpr size_t kPiece = 1 << 20, kMostKeys = 1 << 20;
  std::string piece;
  for (const Mapping& mapping : mappings_of(pid)) {
    if (!mapping.readable || mapping.dumped != dumped) continue;
    if (!dumped && mapping.end - mapping.begin > kMostKeys) continue;  // a sanitizer's terabytes of shadow
    piece.clear();
    for (uintptr_t at = mapping.begin; at < mapping.end; at += kPiece) {
      if (!has_pages(pagemap.get(), at, std::min<size_t>(kPiece, mapping.end - at))) {
        piece.clear();
        continue;
      }
      // The end of the piece before stays in front: the key may lie across two pieces.
      piece.erase(0, piece.size() - std::min(piece.size(), hex.size()));
      const size_t kept = piece.size(), bytes = std::min<size_t>(kPiece, mapping.end - at);
      piece.resize(kept + bytes);
      const ssize_t got = ::pread(memory.get(), piece.data() + kept, bytes, static_cast<off_t>(at));
      piece.resize(kept + static_cast<size_t>(std::max<ssize_t>(got, 0)));
      if (piece.find(key) == std::string::npos && piece.find(hex) == std::string::npos) continue;
      found.push_back(mapping.text);
      break;
    }
  }
  return found;
}

std::string make_key_file(const std::string& path) {
  std::random_device random;
  std::string key;
  for (int i = 0; i < 32; ++i) key.push_back(static_cast<char>(random()));
  const core::UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  REQUIRE(::write(file.get(), key.data(), key.size()) == 32);
  return key;
}

}  // namespace

TEST_CASE("rank: holds a session until it is told to end", "[.]") {
  rueda_session* session = nullptr;
  REQUIRE(rueda_init(nullptr, &session) == RUEDA_OK);
  expect_usable(session, "first");
  REQUIRE(rueda_dump(session, std::getenv("TEST_RECORD")) == RUEDA_OK);
  rank_report("up");
  static_cast<void>(rank_await());
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

TEST_CASE("a job's key is in no core dump, log, flight record, command line or environment of a rank") {
  const bool hosts = GENERATE(false, true);
  const TemporaryFolder folder;
  const std::string key = make_key_file(folder.file("key"));
  RankProcesses ranks({.size = 2,
                       .body = "rank: holds a session until it is told to end",
                       .variables = {{"RUEDA_JOB_KEY_FD", ""},
                                     {"RUEDA_JOB_KEY_FILE", folder.file("key")},
                                     {"RUEDA_LOG_LEVEL", "trace"},
                                     {"TEST_RECORD", folder.file("{rank}.json")},
                                     {"RUEDA_TLS", "all"}},
                       .of_rank = [&](int rank) {
                         const std::string host = hosts ? "host" + std::to_string(rank) : "host";
                         return RankProcesses::Variables{{"RUEDA_HOSTNAME", host}};
                       }});
  for (int rank = 0; rank < 2; ++rank) ranks.await(rank, "up");
  for (int rank = 0; rank < 2; ++rank) {
    CAPTURE(hosts, rank);
    const std::string process = "/proc/" + std::to_string(ranks.pid(rank));
    CHECK(mappings_with(key, ranks.pid(rank), true) == std::vector<std::string>());
    CHECK_FALSE(mappings_with(key, ranks.pid(rank), false).empty());  // so the search finds a key that is there
    CHECK_FALSE(shows(text_of(process + "/cmdline"), key));
    CHECK_FALSE(shows(text_of(process + "/environ"), key));
  }
  for (int rank = 0; rank < 2; ++rank) ranks.tell(rank, "end");
  int number = 0;
  for (const RankOutcome& outcome : ranks.finish()) {
    CHECK(outcome.exit_code == 0);
    CHECK_FALSE(outcome.output.empty());
    CHECK_FALSE(shows(outcome.output, key));
    const std::string record = text_of(folder.file(std::to_string(number++) + ".json"));
    CHECK_FALSE(record.empty());
    CHECK_FALSE(shows(record, key));
  }
}

}  // namespace rueda::test
