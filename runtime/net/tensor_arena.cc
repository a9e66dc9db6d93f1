// Memory that other ranks of the host write into, and how it is taken out of their reach again.
//
//   page        |      a page      |      pages      |      a page      |
//   data        | others | tensor of a failed batch ..........| others  |
//   revoke      | copied by the    | new pages, no   | copied by the    |
//               | kernel at a write| copy            | kernel at a write|
//
// The whole pages of a tensor are replaced, because its content after a failure is unspecified. The pages at its ends
// hold data of others that their threads may be writing just then. There the mapping becomes a private one of the same
// file, in one step of the kernel, and an atomic write that changes nothing makes the kernel copy the page: each store
// of another thread lands before the copy in the file or after it in the copy, and none is lost.
//
// A file page that cannot be had at first touch kills a process with SIGBUS, so a block is allocated in full when it is
// taken.
#include "runtime/net/tensor_arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/memory_limits.h"
#include "runtime/net/live_arenas.h"

namespace rueda::core {
namespace {

constexpr int kArenaSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
/// As on the wire: no tensor is longer.
constexpr uint64_t kMaxArenaBytes = uint64_t{1} << 47;
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, which older headers lack
constexpr int kReadWrite = PROT_READ | PROT_WRITE;

size_t page_bytes() {
  static const auto bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

size_t round_down(size_t value, size_t unit) { return value / unit * unit; }

Status arena_failed(const std::string& call, int error, int rank = -1) {
  return Status(Code::kSystem, "shared tensors: " + call + ": " + std::strerror(error), rank);
}

std::string arena_of(int rank) { return "shared tensors: the descriptor of rank " + std::to_string(rank); }

/// Maps the file at a multiple of a huge page, so that the kernel can use such pages.
Result<std::byte*> map_file(int fd, size_t bytes) {
  const size_t room = bytes + BlockMap::kHugePage;
  void* const reserved = ::mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return arena_failed("mmap of " + std::to_string(room) + " bytes", errno);
  auto* const begin = static_cast<std::byte*>(reserved);
  const size_t skipped =
      round_up(reinterpret_cast<uintptr_t>(begin), BlockMap::kHugePage) - reinterpret_cast<uintptr_t>(begin);
  std::byte* const base = begin + skipped;
  const void* const mapped = ::mmap(base, bytes, kReadWrite, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0);
  const int error = errno;
  if (mapped == MAP_FAILED) {
    ::munmap(begin, room);
    return arena_failed("mmap of " + std::to_string(bytes) + " bytes", error);
  }
  if (skipped > 0) ::munmap(begin, skipped);
  ::munmap(base + bytes, room - skipped - bytes);
  ::madvise(base, bytes, MADV_HUGEPAGE);  // refused if the kernel has none for such files: then small ones serve
  return base;
}

Result<UniqueFd> make_file(size_t bytes) {
  UniqueFd fd(::memfd_create("rueda-tensors", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return arena_failed("memfd_create", errno);
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return arena_failed("ftruncate to " + std::to_string(bytes) + " bytes", errno);
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, kArenaSeals) != 0) return arena_failed("F_ADD_SEALS", errno);
  // The child of a fork maps the file before it closes the descriptor.
  keep_in_child(fd.get());
  return fd;
}

/// Gives the block its pages: through the mapping if the kernel can, which also places huge ones, else in the file.
int allocate_pages(std::byte* at, size_t bytes, int fd, size_t offset) {
  if (::madvise(at, bytes, kPopulateWrite) == 0) return 0;
  int error = 0;
  do {
    error = ::posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (error == EINTR);
  return error;
}

void free_pages(int fd, size_t offset, size_t bytes) {
  ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(bytes));
}

/// Memory beyond a control group's limit would kill the process that touches it.
Status check_limits(size_t bytes) {
  for (const MemoryLimit& limit : memory_limits()) {
    if (limit.left_bytes >= bytes) continue;
    return Status(Code::kSystem, "shared tensors: " + std::to_string(bytes) + " bytes do not fit: control group " +
                                     (limit.group.empty() ? "/" : limit.group) + " has " +
                                     std::to_string(limit.left_bytes) + " of " + std::to_string(limit.limit_bytes) +
                                     " bytes left");
  }
  return {};
}

/// Without the mapping's protection a peer could write into memory that the caller uses for something else.
[[noreturn]] void cannot_revoke(int error) {
  log(LogLevel::kFatal, "shared tensors: mmap refused to take a failed batch's tensors from other ranks: {}",
      std::strerror(error));
  std::abort();
}

void map_over(std::byte* at, size_t bytes, int flags, int fd, size_t offset) {
  const void* const mapped =
      ::mmap(at, bytes, kReadWrite, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE | flags, fd, static_cast<off_t>(offset));
  if (mapped == MAP_FAILED) cannot_revoke(errno);
}

/// Makes the kernel copy private pages of a file, by writes that change nothing. They are atomic because other threads
/// may write to the same bytes. A compiler may replace `fetch_or(0)` by a fence, which writes nothing; it keeps an
/// exchange.
void copy_pages(std::byte* begin, size_t bytes) {
  for (size_t at = 0; at < bytes; at += page_bytes()) {
    const std::atomic_ref<uint8_t> first(*reinterpret_cast<uint8_t*>(begin + at));
    uint8_t same = first.load();
    while (!first.compare_exchange_weak(same, same)) {
    }
  }
}

}  // namespace

TensorArena::TensorArena(UniqueFd fd, std::byte* base, size_t bytes, uint64_t device, uint64_t inode)
    : fd_(std::move(fd)),
      own_(fd_.valid()),
      base_(base),
      bytes_(bytes),
      device_(device),
      inode_(inode),
      process_(::getpid()),
      blocks_(bytes, page_bytes()) {}

TensorArena::~TensorArena() {
  if (own_) LiveArenas::get().forget(this);
  if (!inherited()) ::munmap(base_, bytes_);
}

bool TensorArena::inherited() const { return process_ != ::getpid(); }

Result<std::shared_ptr<TensorArena>> TensorArena::create(size_t bytes) {
  const size_t whole = round_up(bytes, BlockMap::kHugePage);
  auto fd = make_file(whole);
  if (!fd.ok()) return fd.status();
  struct stat file {};
  if (::fstat(fd.value().get(), &file) != 0) return arena_failed("fstat", errno);
  auto base = map_file(fd.value().get(), whole);
  if (!base.ok()) return base.status();
  std::shared_ptr<TensorArena> arena(
      new TensorArena(std::move(fd).value(), base.value(), whole, file.st_dev, file.st_ino));
  LiveArenas::get().add(arena);
  return arena;
}

Result<std::shared_ptr<TensorArena>> TensorArena::map(int fd, int rank) {
  struct stat file {};
  if (::fstat(fd, &file) != 0) return arena_failed("fstat", errno, rank);
  if (auto own = LiveArenas::get().find(file.st_dev, file.st_ino)) return own;
  const auto bytes = static_cast<uint64_t>(file.st_size);
  if (!S_ISREG(file.st_mode) || bytes == 0 || bytes > kMaxArenaBytes || bytes % BlockMap::kHugePage != 0) {
    return Status(Code::kSystem, arena_of(rank) + " is not a memory file of whole huge pages", rank);
  }
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kArenaSeals) != kArenaSeals) {
    return Status(Code::kSystem, arena_of(rank) + " is not sealed against resizing", rank);
  }
  auto base = map_file(fd, bytes);
  if (!base.ok()) return base.status();
  if (::madvise(base.value(), bytes, MADV_DONTFORK) != 0) {
    const int error = errno;
    ::munmap(base.value(), bytes);
    return arena_failed("MADV_DONTFORK", error, rank);
  }
  return std::shared_ptr<TensorArena>(new TensorArena(UniqueFd(), base.value(), bytes, file.st_dev, file.st_ino));
}

Result<std::byte*> TensorArena::take(size_t bytes) {
  RUEDA_RETURN_IF_ERROR(check_limits(bytes));
  std::byte* block = nullptr;
  size_t length = 0;
  {
    MutexLock lock(mutex_);
    const auto offset = blocks_.take(bytes);
    if (!offset) {
      return Status(Code::kSystem, "shared tensors: " + std::to_string(bytes) + " bytes do not fit: " +
                                       std::to_string(blocks_.taken_bytes()) + " of " + std::to_string(bytes_) +
                                       " bytes are taken; free tensors or raise RUEDA_SHARED_TENSOR_BYTES");
    }
    block = base_ + *offset;
    length = blocks_.length_of(*offset);
  }
  // Without the lock: gigabytes take a while.
  const int error = allocate_pages(block, length, fd_.get(), static_cast<size_t>(block - base_));
  if (error == 0) return block;
  give_back(block);
  return arena_failed("allocation of " + std::to_string(bytes) + " bytes", error);
}

void TensorArena::give_back(std::byte* block) {
  const auto offset = static_cast<size_t>(block - base_);
  if (inherited()) return;
  MutexLock lock(mutex_);
  const size_t length = blocks_.length_of(offset);
  if (length == 0) return;
  free_pages(fd_.get(), offset, length);
  if (!is_revoked({offset, offset + length})) return blocks_.give_back(offset);
  // A peer may write to these pages of the file at any time, so no tensor may ever lie there again.
  static_cast<void>(::mmap(block, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0));
  blocks_.retire(offset);
}

size_t TensorArena::taken_bytes() const {
  MutexLock lock(mutex_);
  return blocks_.taken_bytes();
}

bool TensorArena::enter() {
  MutexLock lock(mutex_);
  if (closed_) return false;
  ++inside_;
  return true;
}

void TensorArena::leave() {
  MutexLock lock(mutex_);
  if (--inside_ == 0) left_.notify_all();
}

bool TensorArena::is_revoked(Range range) const {
  return std::any_of(revoked_.begin(), revoked_.end(),
                     [range](const Range& each) { return each.begin < range.end && range.begin < each.end; });
}

/// Spans are united page by page first: neighbours that share a page must not undo each other's copy, and each separate
/// mapping counts against the kernel's limit for a process.
void TensorArena::revoke(std::span<const std::span<std::byte>> spans) noexcept {
  const size_t page = page_bytes();
  std::vector<Range> ranges;
  for (const std::span<std::byte> span : spans) {
    if (span.empty() || !contains(span.data(), span.size())) continue;
    const auto begin = static_cast<size_t>(span.data() - base_);
    ranges.push_back({begin, begin + span.size()});
  }
  if (ranges.empty()) return;
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  MutexLock lock(mutex_);
  closed_ = true;
  while (inside_ > 0) left_.wait(mutex_);
  for (size_t first = 0; first < ranges.size();) {
    Range pages{round_down(ranges[first].begin, page), round_up(ranges[first].end, page)};
    size_t last = first + 1;
    while (last < ranges.size() && round_down(ranges[last].begin, page) <= pages.end) {
      pages.end = std::max(pages.end, round_up(ranges[last++].end, page));
    }
    detach(pages, std::span(ranges).subspan(first, last - first));
    first = last;
  }
}

/// Takes pages out of the file: first all of them as private copies, then those that hold nothing else as new memory.
/// Pages that an earlier call has taken are private already, and their content must stay.
void TensorArena::detach(Range pages, std::span<const Range> parts) {
  size_t begin = pages.begin;
  for (const Range& earlier : std::vector<Range>(revoked_)) {
    if (earlier.end <= begin || earlier.begin >= pages.end) continue;
    if (earlier.begin > begin) make_private({begin, earlier.begin});
    begin = std::max(begin, earlier.end);
  }
  if (begin < pages.end) make_private({begin, pages.end});
  size_t at = pages.begin;
  for (const Range& part : parts) {
    const Range inner{std::max(at, round_up(part.begin, page_bytes())), round_down(part.end, page_bytes())};
    if (inner.begin >= inner.end) continue;
    copy_pages(base_ + at, inner.begin - at);
    map_over(base_ + inner.begin, inner.end - inner.begin, MAP_ANONYMOUS, -1, 0);
    free_pages(fd_.get(), inner.begin, inner.end - inner.begin);
    at = inner.end;
  }
  copy_pages(base_ + at, pages.end - at);
}

void TensorArena::make_private(Range range) {
  map_over(base_ + range.begin, range.end - range.begin, 0, fd_.get(), range.begin);
  const auto next = std::upper_bound(revoked_.begin(), revoked_.end(), range,
                                     [](const Range& a, const Range& b) { return a.begin < b.begin; });
  revoked_.insert(next, range);
}

/// If a mapping is refused, the addresses must not stay those of the parent: a read then ends the child. The child of a
/// child inherits private mappings, as of any memory.
void TensorArena::isolate() {
  if (!fd_.valid()) return;
  size_t begin = 0;
  const auto isolate_to = [&](size_t end) {
    if (begin >= end) return;
    std::byte* const at = base_ + begin;
    const void* const mapped = ::mmap(at, end - begin, kReadWrite, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd_.get(),
                                      static_cast<off_t>(begin));
    if (mapped == MAP_FAILED) ::munmap(at, end - begin);
  };
  for (const Range& range : revoked_) {
    isolate_to(range.begin);
    begin = range.end;
  }
  isolate_to(bytes_);
  ::close(fd_.release());
}

}  // namespace rueda::core
