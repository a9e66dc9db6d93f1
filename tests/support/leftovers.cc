// Counts what a process holds, from /proc. A test compares the counts before and after; a difference is a leak.
#include "tests/support/leftovers.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace rueda::test {
namespace {

namespace fs = std::filesystem;

size_t count_entries(const char* directory) {
  std::error_code ignored;
  return static_cast<size_t>(std::distance(fs::directory_iterator(directory, ignored), fs::directory_iterator()));
}

std::string line_of(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(key, 0) == 0) return line.substr(key.size());
  }
  return "0";
}

// Distinct memfds: open ones by their link, mapped ones by the path in maps; both carry "/memfd:".
size_t count_memfds() {
  std::set<std::string> inodes;
  std::error_code ignored;
  size_t open = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd", ignored)) {
    if (fs::read_symlink(entry, ignored).string().rfind("/memfd:", 0) == 0) ++open;
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:rueda") == std::string::npos) continue;
    std::istringstream fields(line);
    std::string range, mode, offset, device, inode;
    fields >> range >> mode >> offset >> device >> inode;
    inodes.insert(inode);
  }
  return open + inodes.size();
}

size_t count_children() {
  size_t children = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (!std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; })) continue;
    if (std::stol(line_of(entry.path() / "status", "PPid:")) == getpid()) ++children;
  }
  return children;
}

void compare(std::vector<std::string>& leaks, const char* what, size_t before, size_t after) {
  if (after > before) leaks.push_back(std::to_string(after) + " " + what + ", " + std::to_string(before) + " before");
}

}  // namespace

Holdings holdings() {
  Holdings now;
  now.descriptors = count_entries("/proc/self/fd");
  now.memfds = count_memfds();
  now.threads = count_entries("/proc/self/task");
  now.children = count_children();
  now.resident_kib = std::stoul(line_of("/proc/self/status", "VmRSS:"));
  return now;
}

std::vector<std::string> named_files() {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/dev/shm", ignored)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("rueda") && !name.starts_with("rueda-perf-")) found.push_back(entry.path());
  }
  return found;
}

std::vector<std::string> leaks(const Holdings& before, const Holdings& after) {
  std::vector<std::string> all;
  compare(all, "descriptors", before.descriptors, after.descriptors);
  compare(all, "memfds", before.memfds, after.memfds);
  compare(all, "threads", before.threads, after.threads);
  compare(all, "children", before.children, after.children);
  return all;
}

}  // namespace rueda::test
