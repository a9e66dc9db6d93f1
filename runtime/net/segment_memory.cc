// Makes the memory that a rank shares with the others of its host:
//
//   memfd_create ─▶ allocate all of it ─▶ seal its size ─▶ map ─▶ touch
//
// A page that cannot be had at first touch kills a process with SIGBUS. So the file is allocated in full before it is
// mapped.
#include "runtime/net/segment_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/shortage.h"

namespace rueda::core {

Status shared_memory_failed(const std::string& call, int error) {
  return Status(Code::kSystem, "shared memory: " + call + ": " + reason_of(error));
}

Result<std::byte*> map_shared_bytes(int fd, size_t bytes) {
  const int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
  void* const base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (base == MAP_FAILED) return shared_memory_failed("mmap of " + std::to_string(bytes) + " bytes", errno);
  if (::madvise(base, bytes, MADV_DONTFORK) != 0) {
    const int error = errno;
    ::munmap(base, bytes);
    return shared_memory_failed("MADV_DONTFORK", error);
  }
  return static_cast<std::byte*>(base);
}

namespace {

/// A memfd has no size limit of its own: allocating more than the machine has would make the kernel kill processes.
Status check_memory(size_t bytes) {
  const auto memory = static_cast<size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  if (bytes <= memory) return {};
  return Status(Code::kSystem, "shared memory: a segment of " + std::to_string(bytes) +
                                   " bytes is larger than this machine's memory of " + std::to_string(memory));
}

/// A file of `bytes`, allocated in full, with no name; sealed if the system can.
Result<UniqueFd> allocate(size_t bytes) {
  UniqueFd fd(::memfd_create("rueda-segment", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int refused = errno;
  const bool sealable = fd.valid();
  if (!sealable) fd = UniqueFd(::open(SegmentMemory::kFallbackFolder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!fd.valid()) {
    return Status(Code::kSystem, std::string("shared memory: memfd_create: ") + reason_of(refused) +
                                     "; O_TMPFILE in /dev/shm: " + reason_of(errno));
  }
  int error = 0;
  do {
    error = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes));
  } while (error == EINTR);
  const std::string where = sealable ? "" : std::string(" in ") + SegmentMemory::kFallbackFolder;
  if (error != 0) return shared_memory_failed("posix_fallocate of " + std::to_string(bytes) + " bytes" + where, error);
  if (sealable && ::fcntl(fd.get(), F_ADD_SEALS, SegmentMemory::kSeals) != 0)
    return shared_memory_failed("F_ADD_SEALS", errno);
  return fd;
}

/// Touches every page on the caller's core: the kernel puts a page on the NUMA node of its first touch.
void touch(std::byte* base, size_t bytes) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  for (size_t offset = 0; offset < bytes; offset += page)
    *static_cast<volatile std::byte*>(base + offset) = std::byte{0};
}

}  // namespace

Result<SegmentMemory> SegmentMemory::make(size_t bytes) {
  RUEDA_RETURN_IF_ERROR(check_memory(bytes));
  auto fd = allocate(bytes);
  if (!fd.ok()) return fd.status();
  auto base = map_shared_bytes(fd.value().get(), bytes);
  if (!base.ok()) return base.status();
  touch(base.value(), bytes);
  return SegmentMemory(std::move(fd).value(), base.value(), bytes);
}

SegmentMemory::SegmentMemory(UniqueFd fd, std::byte* base, size_t bytes)
    : fd_(std::move(fd)), base_(base), bytes_(bytes), process_(::getpid()) {}

SegmentMemory::SegmentMemory(SegmentMemory&& other) noexcept
    : fd_(std::move(other.fd_)),
      base_(std::exchange(other.base_, nullptr)),
      bytes_(other.bytes_),
      process_(other.process_) {}

SegmentMemory::~SegmentMemory() {
  if (base_ != nullptr && process_ == ::getpid()) ::munmap(base_, bytes_);  // a forked child has no such mapping
}

std::pair<UniqueFd, std::byte*> SegmentMemory::take() && { return {std::move(fd_), std::exchange(base_, nullptr)}; }

}  // namespace rueda::core
