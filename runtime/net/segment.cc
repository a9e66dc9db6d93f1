// Makes, checks and maps the memory that the ranks of one host share.
//
//   owner   memory (segment_memory.h) ─▶ header ─▶ pass the descriptor
//   peer    descriptor ─▶ size and seals ─▶ map ─▶ header: magic, layout, epoch, rank
//
// A file that shrinks kills a process that reads it with SIGBUS. So a peer maps only a file whose size is sealed.
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

namespace rueda::core {
namespace {

constexpr uint64_t kMagic = 0x32'67'65'73'64'65'75'72;  // "ruedseg2", little-endian

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

std::string of_rank(int rank) { return "shared memory: the descriptor of rank " + std::to_string(rank); }

/// Returns true for an unnamed file of /dev/shm, which cannot be sealed. Its sender could shrink any other unsealed
/// file while we use it.
bool may_be_unsealed(const struct stat& file) {
  struct stat folder {};
  return ::stat(SegmentMemory::kFallbackFolder, &folder) == 0 && folder.st_dev == file.st_dev && file.st_nlink == 0;
}

Status check_file(int fd, const struct stat& file, size_t bytes, int rank) {
  if (!S_ISREG(file.st_mode)) return Status(Code::kSystem, of_rank(rank) + " is not a memory file", rank);
  if (static_cast<uint64_t>(file.st_size) != bytes) {
    return Status(Code::kSystem,
                  of_rank(rank) + " has " + std::to_string(file.st_size) + " bytes, expected " + std::to_string(bytes),
                  rank);
  }
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals >= 0 && (seals & SegmentMemory::kSeals) == SegmentMemory::kSeals) return {};
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
  auto memory = SegmentMemory::make(layout.total_bytes());
  if (!memory.ok()) return memory.status();
  return create_in(std::move(memory).value(), layout, epoch, rank);
}

Result<std::shared_ptr<Segment>> Segment::create_in(SegmentMemory memory, const SegmentLayout& layout, uint64_t epoch,
                                                    int rank) {
  struct stat file {};
  if (::fstat(memory.fd(), &file) != 0) return shared_memory_failed("fstat", errno);
  auto [fd, base] = std::move(memory).take();
  new (base) SegmentHeader{kMagic, layout.hash(), epoch, rank, 0};
  std::shared_ptr<Segment> segment(new Segment(std::move(fd), base, layout, file.st_dev, file.st_ino));
  return live_mappings().add({file.st_dev, file.st_ino}, std::move(segment));
}

Result<std::shared_ptr<Segment>> Segment::create_private(const SegmentLayout& layout, uint64_t epoch, int rank) {
  auto base = map_shared_bytes(-1, layout.total_bytes());
  if (!base.ok()) return base.status();
  new (base.value()) SegmentHeader{kMagic, layout.hash(), epoch, rank, 0};
  return std::shared_ptr<Segment>(new Segment(UniqueFd(), base.value(), layout, 0, 0));  // no file has inode 0
}

Result<std::shared_ptr<Segment>> Segment::map(int fd, const SegmentLayout& layout, uint64_t epoch, int rank) {
  struct stat file {};
  if (::fstat(fd, &file) != 0) return shared_memory_failed("fstat", errno);
  RUEDA_RETURN_IF_ERROR(check_file(fd, file, layout.total_bytes(), rank));
  const LiveMappings::Inode inode{file.st_dev, file.st_ino};
  if (auto segment = live_mappings().find(inode)) {
    RUEDA_RETURN_IF_ERROR(check_header(*reinterpret_cast<SegmentHeader*>(segment->base()), layout, epoch, rank));
    return segment;
  }
  auto base = map_shared_bytes(fd, layout.total_bytes());
  if (!base.ok()) return base.status();
  std::shared_ptr<Segment> segment(new Segment(UniqueFd(), base.value(), layout, file.st_dev, file.st_ino));
  RUEDA_RETURN_IF_ERROR(check_header(*reinterpret_cast<SegmentHeader*>(base.value()), layout, epoch, rank));
  return live_mappings().add(inode, std::move(segment));
}

}  // namespace rueda::core
