#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace rueda::test {

/// What this process holds and what it might leave behind.
struct Holdings {
  size_t descriptors = 0;  ///< open in this process, memfds among them
  size_t memfds = 0;       ///< open or mapped in this process
  size_t threads = 0;
  size_t children = 0;  ///< processes whose parent is this one
  size_t resident_kib = 0;
};
Holdings holdings();

/// Files in /dev/shm with Rueda's name: there may never be one, not even while jobs run. What rueda-perf makes there
/// for its MPI peer does not count.
std::vector<std::string> named_files();

/// The differences that count, as sentences: everything but resident memory, which the caller judges.
std::vector<std::string> leaks(const Holdings& before, const Holdings& after);

}  // namespace rueda::test
