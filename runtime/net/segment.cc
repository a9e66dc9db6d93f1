// Makes, checks and maps the memory that the ranks of one host share.
//
//   owner   memfd_create ─▶ allocate all of it ─▶ seal its size ─▶ map ─▶ touch ─▶ header ─▶ pass the descriptor
//   peer    descriptor ─▶ size and seals ─▶ map ─▶ header: magic, layout, epoch, rank
//
// A page that cannot be had at first touch, or a file that shrinks, kills a process with SIGBUS. So the file is
// allocated in full before it is mapped, and sealed before it is passed.
#include "runtime/net/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <utility>

#include "runtime/base/mutex.h"
#include "runtime/base/shortage.h"

namespace rueda::core {
namespace {

constexpr uint64_t kMagic = 0x31'67'65'73'64'65'75'72;  // "ruedseg1", little-endian
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr const char* kFallbackFolder = "/dev/shm";

Status failed(const std::string& call, int error) {
  return Status(Code::kSystem, "shared memory: " + call + ": " + reason_of(error));
}

/// The live mappings of this address space, by inode: ranks on threads of one process share one mapping of a segment.
/// The table belongs to the address space, as the mappings do, and holds none of them alive. A forked child inherits
/// entries whose memory it does not have; the process id tells them apart.
class LiveMappings {
 public:
  using Inode = std::pair<uint64_t, uint64_t>;

  std::shared_ptr<Segment> find(const Inode& inode) RUEDA_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto it = entries_.find(inode);
    return it == entries_.end() || it->second.process != ::getpid() ? nullptr : it->second.segment.lock();
  }
  /// The mapping to use: `segment`, or the one that another thread has added meanwhile.
  std::shared_ptr<Segment> add(const Inode& inode, std::shared_ptr<Segment> segment) RUEDA_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    Entry& entry = entries_[inode];
    auto earlier = entry.process == ::getpid() ? entry.segment.lock() : nullptr;
    if (earlier) return earlier;
    entry = Entry{segment, ::getpid()};
    return segment;
  }
  /// Called by a destructor: the entry may meanwhile stand for a newer mapping, which stays.
  void forget(const Inode& inode) RUEDA_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto it = entries_.find(inode);
    if (it != entries_.end() && it->second.segment.expired()) entries_.erase(it);
  }

 private:
  struct Entry {
    std::weak_ptr<Segment> segment;
    int process = 0;
  };
  Mutex mutex_;
  std::map<Inode, Entry> entries_ RUEDA_GUARDED_BY(mutex_);
};

LiveMappings& live_mappings() {
  static auto* const mappings = new LiveMappings;  // never destroyed: segments may outlive static destructors
  return *mappings;
}

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
  if (!sealable) fd = UniqueFd(::open(kFallbackFolder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!fd.valid()) {
    return Status(Code::kSystem, std::string("shared memory: memfd_create: ") + reason_of(refused) +
                                     "; O_TMPFILE in /dev/shm: " + reason_of(errno));
  }
  int error = 0;
  do {
    error = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes));
  } while (error == EINTR);
  const std::string where = sealable ? "" : std::string(" in ") + kFallbackFolder;
  if (error != 0) return failed("posix_fallocate of " + std::to_string(bytes) + " bytes" + where, error);
  if (sealable && ::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return failed("F_ADD_SEALS", errno);
  return fd;
}

/// Memory of the file `fd`; of this process alone if `fd` is -1.
Result<std::byte*> map_bytes(int fd, size_t bytes) {
  const int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
  void* const base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (base == MAP_FAILED) return failed("mmap of " + std::to_string(bytes) + " bytes", errno);
  if (::madvise(base, bytes, MADV_DONTFORK) != 0) {
    const int error = errno;
    ::munmap(base, bytes);
    return failed("MADV_DONTFORK", error);
  }
  return static_cast<std::byte*>(base);
}

/// Touches every page on the owner's core: the kernel puts a page on the NUMA node of its first touch.
void touch(std::byte* base, size_t bytes) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  for (size_t offset = 0; offset < bytes; offset += page)
    *static_cast<volatile std::byte*>(base + offset) = std::byte{0};
}

std::string of_rank(int rank) { return "shared memory: the descriptor of rank " + std::to_string(rank); }

/// Returns true for an unnamed file of /dev/shm, which cannot be sealed. Its sender could shrink any other unsealed
/// file while we use it.
bool may_be_unsealed(const struct stat& file) {
  struct stat folder {};
  return ::stat(kFallbackFolder, &folder) == 0 && folder.st_dev == file.st_dev && file.st_nlink == 0;
}

Status check_file(int fd, const struct stat& file, size_t bytes, int rank) {
  if (!S_ISREG(file.st_mode)) return Status(Code::kSystem, of_rank(rank) + " is not a memory file", rank);
  if (static_cast<uint64_t>(file.st_size) != bytes) {
    return Status(Code::kSystem,
                  of_rank(rank) + " has " + std::to_string(file.st_size) + " bytes, expected " + std::to_string(bytes),
                  rank);
  }
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals >= 0 && (seals & kSeals) == kSeals) return {};
  if (may_be_unsealed(file)) return {};
  return Status(Code::kSystem, of_rank(rank) + " is not sealed against resizing", rank);
}

Status check_header(const SegmentHeader& header, const SegmentLayout& layout, uint64_t epoch, int rank) {
  if (header.magic != kMagic)
    return Status(Code::kSystem, of_rank(rank) + " is not a segment: its magic number is wrong", rank);
  if (header.layout_hash != layout.hash()) {
    return Status(Code::kSystem, of_rank(rank) + " has other lanes, slots or rings than ours", rank);
  }
  if (header.epoch != epoch) {
    return Status(
        Code::kSystem,
        of_rank(rank) + " is of epoch " + std::to_string(header.epoch) + ", expected " + std::to_string(epoch), rank);
  }
  if (header.rank != rank) {
    return Status(Code::kSystem, of_rank(rank) + " is the segment of rank " + std::to_string(header.rank), rank);
  }
  return {};
}

}  // namespace

Segment::Segment(UniqueFd fd, std::byte* base, const SegmentLayout& layout, uint64_t device, uint64_t inode)
    : fd_(std::move(fd)), base_(base), layout_(layout), device_(device), inode_(inode), process_(::getpid()) {}

Segment::~Segment() {
  // In a forked child the object exists and its mapping does not (MADV_DONTFORK); the addresses may be another
  // mapping's.
  if (process_ != ::getpid()) return;
  live_mappings().forget({device_, inode_});
  ::munmap(base_, layout_.total_bytes());
}

Result<std::shared_ptr<Segment>> Segment::create(const SegmentLayout& layout, uint64_t epoch, int rank) {
  const size_t bytes = layout.total_bytes();
  RUEDA_RETURN_IF_ERROR(check_memory(bytes));
  auto fd = allocate(bytes);
  if (!fd.ok()) return fd.status();
  struct stat file {};
  if (::fstat(fd.value().get(), &file) != 0) return failed("fstat", errno);
  auto base = map_bytes(fd.value().get(), bytes);
  if (!base.ok()) return base.status();
  touch(base.value(), bytes);
  new (base.value()) SegmentHeader{kMagic, layout.hash(), epoch, rank, 0};
  std::shared_ptr<Segment> segment(new Segment(std::move(fd).value(), base.value(), layout, file.st_dev, file.st_ino));
  return live_mappings().add({file.st_dev, file.st_ino}, std::move(segment));
}

Result<std::shared_ptr<Segment>> Segment::create_private(const SegmentLayout& layout, uint64_t epoch, int rank) {
  auto base = map_bytes(-1, layout.total_bytes());
  if (!base.ok()) return base.status();
  new (base.value()) SegmentHeader{kMagic, layout.hash(), epoch, rank, 0};
  return std::shared_ptr<Segment>(new Segment(UniqueFd(), base.value(), layout, 0, 0));  // no file has inode 0
}

Result<std::shared_ptr<Segment>> Segment::map(int fd, const SegmentLayout& layout, uint64_t epoch, int rank) {
  struct stat file {};
  if (::fstat(fd, &file) != 0) return failed("fstat", errno);
  RUEDA_RETURN_IF_ERROR(check_file(fd, file, layout.total_bytes(), rank));
  const LiveMappings::Inode inode{file.st_dev, file.st_ino};
  if (auto segment = live_mappings().find(inode)) {
    RUEDA_RETURN_IF_ERROR(check_header(*reinterpret_cast<SegmentHeader*>(segment->base()), layout, epoch, rank));
    return segment;
  }
  auto base = map_bytes(fd, layout.total_bytes());
  if (!base.ok()) return base.status();
  std::shared_ptr<Segment> segment(new Segment(UniqueFd(), base.value(), layout, file.st_dev, file.st_ino));
  RUEDA_RETURN_IF_ERROR(check_header(*reinterpret_cast<SegmentHeader*>(base.value()), layout, epoch, rank));
  return live_mappings().add(inode, std::move(segment));
}

}  // namespace rueda::core
