#pragma once
#include <fcntl.h>

#include <cstddef>
#include <string>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core {

/// The memory of a segment before it has a header: a sealed memfd, or an unnamed file in /dev/shm if memfd_create is
/// refused, allocated in full, mapped, all zero, each page touched. A forked child does not inherit the mapping. Owns
/// both; any thread, one at a time.
class SegmentMemory {
 public:
  static constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  static constexpr const char* kFallbackFolder = "/dev/shm";

  /// Returns kSystem if there is no memory for it, or if neither memfd_create nor O_TMPFILE in /dev/shm is allowed; the
  /// sentence names call and errno.
  static Result<SegmentMemory> make(size_t bytes);
  SegmentMemory(SegmentMemory&& other) noexcept;
  SegmentMemory& operator=(SegmentMemory&& other) = delete;
  ~SegmentMemory();

  size_t bytes() const { return bytes_; }
  int fd() const { return fd_.get(); }
  /// Gives away the file and its mapping, which the caller unmaps.
  std::pair<UniqueFd, std::byte*> take() &&;

 private:
  SegmentMemory(UniqueFd fd, std::byte* base, size_t bytes);
  UniqueFd fd_;
  std::byte* base_;  ///< null once it was given away
  size_t bytes_;
  int process_;  ///< the process that has the mapping
};

/// kSystem with the call and the errno.
Status shared_memory_failed(const std::string& call, int error);
/// Maps the file `fd` for reading and writing, and private memory if `fd` is -1. No forked child inherits the mapping.
/// Returns kSystem with the call and the errno.
Result<std::byte*> map_shared_bytes(int fd, size_t bytes);

}  // namespace rueda::core
