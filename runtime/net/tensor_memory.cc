// The blocks of this process by address. A caller frees by address alone: a tensor's deleter knows neither session nor
// arena, and may run after both are gone. Blocks are large and few, so one map under one lock serves all threads.
#include "runtime/net/tensor_memory.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <string>

#include "runtime/base/mutex.h"

namespace rueda::core {
namespace {

struct TensorBlock {
  std::shared_ptr<TensorArena> arena;  ///< null: private memory
  size_t bytes;
};

class TensorBlocks {
 public:
  void add(std::byte* data, TensorBlock block) RUEDA_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    blocks_.emplace(data, std::move(block));
  }
  /// Returns a block of 0 bytes if none begins there.
  TensorBlock remove(std::byte* data) RUEDA_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto found = blocks_.find(data);
    if (found == blocks_.end()) return {nullptr, 0};
    TensorBlock block = std::move(found->second);
    blocks_.erase(found);
    return block;
  }

  void lock() RUEDA_ATTRIBUTE(acquire_capability(mutex_)) { mutex_.lock(); }
  void unlock() RUEDA_ATTRIBUTE(release_capability(mutex_)) { mutex_.unlock(); }

 private:
  Mutex mutex_;
  std::map<std::byte*, TensorBlock> blocks_ RUEDA_GUARDED_BY(mutex_);
};

TensorBlocks& tensor_blocks();
void lock_blocks() RUEDA_ATTRIBUTE(no_thread_safety_analysis) { tensor_blocks().lock(); }
void unlock_blocks() RUEDA_ATTRIBUTE(no_thread_safety_analysis) { tensor_blocks().unlock(); }

/// Never destroyed: tensors may outlive static destructors. Another thread may hold the lock during a fork, so a fork
/// takes it.
TensorBlocks& tensor_blocks() {
  static auto* const all = [] {
    static_cast<void>(::pthread_atfork(lock_blocks, unlock_blocks, unlock_blocks));
    return new TensorBlocks;
  }();
  return *all;
}

size_t whole_pages(size_t bytes) { return round_up(bytes, static_cast<size_t>(::sysconf(_SC_PAGESIZE))); }

Result<TensorMemory> allocate_private(size_t bytes) {
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return Status(Code::kSystem,
                  "no memory for a tensor of " + std::to_string(bytes) + " bytes: mmap: " + std::strerror(errno));
  }
  return TensorMemory{static_cast<std::byte*>(data), bytes, false};
}

}  // namespace

Result<TensorMemory> allocate_tensor_memory(const std::shared_ptr<TensorArena>& arena, size_t bytes) {
  constexpr size_t kMost = size_t{1} << 47;  // as a tensor on the wire, and rounding up cannot overflow
  if (bytes > kMost) {
    return Status(Code::kSystem,
                  "a tensor of " + std::to_string(bytes) + " bytes is longer than the limit of 2^47 bytes");
  }
  TensorMemory memory{nullptr, whole_pages(bytes == 0 ? 1 : bytes), true};
  if (arena != nullptr) {
    const Result<std::byte*> taken = arena->take(memory.bytes);
    if (!taken.ok()) return taken.status();
    memory.data = taken.value();
  } else {
    Result<TensorMemory> own = allocate_private(memory.bytes);
    if (!own.ok()) return own.status();
    memory = own.value();
  }
  tensor_blocks().add(memory.data, {arena, memory.bytes});
  return memory;
}

Status free_tensor_memory(void* data) {
  if (data == nullptr) return {};
  auto* const begin = static_cast<std::byte*>(data);
  const TensorBlock block = tensor_blocks().remove(begin);
  if (block.bytes == 0) {
    return Status(Code::kInvalidArgument, "the address does not come from rueda_memory_allocate, or is free already");
  }
  if (block.arena != nullptr) {
    block.arena->give_back(begin);
  } else {
    ::munmap(begin, block.bytes);
  }
  return {};
}

}  // namespace rueda::core
