#include "runtime/net/tensor_arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/net/tensor_memory.h"
#include "tests/support/scale.h"

using namespace rueda::core;
using Catch::Matchers::Contains;

namespace {

constexpr size_t kArena = size_t{8} << 20;

std::shared_ptr<TensorArena> arena_of(size_t bytes = kArena) {
  auto arena = TensorArena::create(bytes);
  if (!arena.ok()) throw std::runtime_error(arena.status().sentence());
  return std::move(arena).value();
}

/// The file as another process sees it: a mapping that the arena does not know.
class PeerView {
 public:
  explicit PeerView(const TensorArena& arena)
      : bytes_(arena.bytes()),
        base_(static_cast<std::byte*>(
            ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, arena.fd(), 0))) {
    if (base_ == MAP_FAILED) throw std::runtime_error("mmap");
  }
  ~PeerView() { ::munmap(base_, bytes_); }
  PeerView(const PeerView&) = delete;
  PeerView& operator=(const PeerView&) = delete;
  /// The bytes at the same offset as `at` in the arena.
  std::byte* of(const TensorArena& arena, const std::byte* at) const { return base_ + (at - arena.base()); }

 private:
  size_t bytes_;
  std::byte* base_;
};

size_t page() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

bool all_are(const std::byte* at, size_t bytes, int value) {
  for (size_t i = 0; i < bytes; ++i) {
    if (at[i] != static_cast<std::byte>(value)) return false;
  }
  return true;
}

void revoke_one(TensorArena& arena, std::byte* at, size_t bytes) {
  const std::span<std::byte> span(at, bytes);
  arena.revoke({&span, 1});
}

/// Runs `body` in a forked child and returns its exit code.
template <typename Body>
int in_child(Body&& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace

TEST_CASE("Blocks are taken first fit, joined when given back, and never overlap") {
  BlockMap blocks(16 * 4096, 4096);
  CHECK(blocks.take(1) == 0u);
  CHECK(blocks.take(4097) == 4096u);
  CHECK(blocks.take(0) == 3 * 4096u);
  CHECK(blocks.taken_bytes() == 4 * 4096);
  CHECK(blocks.length_of(4096) == 8192);
  CHECK(blocks.length_of(8192) == 0);
  blocks.give_back(4096);
  blocks.give_back(8192);  // no block begins there
  CHECK(blocks.take(3 * 4096) == 4 * 4096u);
  CHECK(blocks.take(2 * 4096) == 4096u);
  for (const size_t offset : {size_t{0}, size_t{1}, size_t{3}, size_t{4}}) blocks.give_back(offset * 4096);
  CHECK(blocks.taken_bytes() == 0);
  CHECK(blocks.take(16 * 4096) == 0u);
  CHECK_FALSE(blocks.take(1).has_value());
  CHECK_FALSE(blocks.take(SIZE_MAX).has_value());
}

TEST_CASE("Long blocks begin at a multiple of a huge page, and a retired range is never taken again") {
  BlockMap blocks(8 * BlockMap::kHugePage, 4096);
  CHECK(blocks.take(4096) == 0u);
  CHECK(blocks.take(BlockMap::kHugePage) == BlockMap::kHugePage);
  CHECK(blocks.take(4096) == 4096u);
  blocks.retire(BlockMap::kHugePage);
  CHECK(blocks.take(BlockMap::kHugePage) == 2 * BlockMap::kHugePage);
  blocks.give_back(0);
  blocks.give_back(4096);
  CHECK(blocks.take(4 * BlockMap::kHugePage) == 3 * BlockMap::kHugePage);
}

TEST_CASE("A block of an arena is zeros, is seen by a peer, and returns its pages") {
  const auto arena = arena_of();
  const PeerView peer(*arena);
  std::byte* const block = arena->take(3 * page() + 5).value();
  CHECK(all_are(block, 4 * page(), 0));
  CHECK(arena->taken_bytes() == 4 * page());
  CHECK(arena->contains(block, 4 * page()));
  CHECK_FALSE(arena->contains(block, kArena + 1));
  CHECK_FALSE(arena->contains(arena->base() - 1, 1));
  CHECK_FALSE(arena->contains(nullptr, 1));
  std::memset(block, 7, 4 * page());
  CHECK(all_are(peer.of(*arena, block), 4 * page(), 7));
  arena->give_back(block);
  CHECK(arena->taken_bytes() == 0);
  CHECK(all_are(peer.of(*arena, block), 4 * page(), 0));
  CHECK(all_are(arena->take(4 * page()).value(), 4 * page(), 0));
}

TEST_CASE("A block beyond the budget is refused with the budget's name, and the rest stays usable") {
  const auto arena = arena_of();
  const auto refused = arena->take(kArena + 1);
  CHECK(refused.status().code() == Code::kSystem);
  CHECK_THAT(refused.status().sentence(), Contains("RUEDA_SHARED_TENSOR_BYTES") && Contains(std::to_string(kArena)));
  CHECK(arena->take(kArena).ok());
}

TEST_CASE("What a peer writes after a revocation reaches no byte of the owner, and data beside it stays shared data") {
  const auto arena = arena_of();
  const PeerView peer(*arena);
  std::byte* const block = arena->take(16 * page()).value();
  std::memset(block, 1, 16 * page());
  // From the middle of one page to the middle of another.
  std::byte* const tensor = block + 2 * page() + 100;
  const size_t bytes = 5 * page();
  revoke_one(*arena, tensor, bytes);
  std::memset(peer.of(*arena, tensor), 9, bytes);
  for (size_t i = 0; i < bytes; ++i) REQUIRE(tensor[i] != std::byte{9});
  CHECK(all_are(block, 2 * page() + 100, 1));
  CHECK(all_are(tensor + bytes, 5 * page(), 1));
  std::memset(tensor, 3, bytes);
  CHECK(all_are(tensor, bytes, 3));
  // Pages that hold none of it are still the file's.
  CHECK(all_are(peer.of(*arena, block), page(), 1));
  std::memset(block, 4, page());
  CHECK(all_are(peer.of(*arena, block), page(), 4));
  arena->give_back(block);
  CHECK(arena->take(page()).value() != block);
}

TEST_CASE("Revocations that share a page, come twice or name foreign memory keep what is beside them") {
  const auto arena = arena_of();
  const PeerView peer(*arena);
  std::byte* const block = arena->take(8 * page()).value();
  std::memset(block, 1, 8 * page());
  std::byte outside[8] = {};
  const std::vector<std::span<std::byte>> small{{block + 3000, 100}, {block + 100, 100}, {outside, 8}, {block, 0}};
  arena->revoke(small);
  std::memset(block + 200, 2, 1000);  // the caller's own data, on a page that is private now
  revoke_one(*arena, block + 2000, 3 * page());
  CHECK(all_are(block + 200, 1000, 2));
  CHECK(all_are(block + 2000 + 3 * page(), page(), 1));
  std::memset(peer.of(*arena, block), 9, 8 * page());
  CHECK(all_are(block + 200, 1000, 2));
  for (size_t i = 0; i < 4 * page(); ++i) REQUIRE(block[i] != std::byte{9});
}

TEST_CASE("No store of another thread is lost while the page that it writes is revoked") {
  if (!kThorough) return;  // TSan takes a new mapping for a write to all of it, which is the race that is tested here
  for (int round = 0; round < 20; ++round) {
    const auto arena = arena_of();
    std::byte* const block = arena->take(4 * page()).value();
    std::atomic<bool> stop{false};
    std::atomic<bool> began{false};
    // A counter beside the revoked tensor, on its last page. If one store were lost, the next look would find less.
    auto* const counter = reinterpret_cast<std::atomic<uint64_t>*>(block + 3 * page() + 512);
    std::atomic<uint64_t> wrong{0};
    std::thread writer([&] {
      for (uint64_t value = 1; !stop.load(); ++value) {
        counter->store(value);
        if (counter->load() != value) wrong.fetch_add(1);
        began.store(true);
      }
    });
    while (!began.load()) std::this_thread::yield();
    revoke_one(*arena, block + 100, 3 * page());
    const uint64_t seen = counter->load();
    while (counter->load() < seen + 100) std::this_thread::yield();
    stop.store(true);
    writer.join();
    CHECK(wrong.load() == 0);
  }
}

TEST_CASE("Two ranks of one process share an arena, and a revocation waits for the one that is inside") {
  const auto arena = arena_of();
  const auto same = TensorArena::map(arena->fd(), 1);
  REQUIRE(same.ok());
  CHECK(same.value() == arena);
  std::byte* const block = arena->take(page()).value();
  REQUIRE(same.value()->enter());
  std::atomic<bool> revoked{false};
  std::thread owner([&] {
    revoke_one(*arena, block, page());
    revoked.store(true);
  });
  while (same.value()->enter()) same.value()->leave();  // until the owner has closed it
  CHECK_FALSE(revoked.load());
  same.value()->leave();
  owner.join();
  CHECK(revoked.load());
  TensorArena* const closed = same.value().get();
  CHECK(ArenaVisit({&closed, 1}).refused());
}

TEST_CASE("A descriptor that is no sealed memory file is refused with its rank") {
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  CHECK_THAT(TensorArena::map(pipe_ends[0], 3).status().sentence(), Contains("rank 3") && Contains("huge pages"));
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
  const UniqueFd open_file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  CHECK_FALSE(TensorArena::map(open_file.get(), 3).ok());  // empty
  REQUIRE(::ftruncate(open_file.get(), static_cast<off_t>(BlockMap::kHugePage)) == 0);
  const auto unsealed = TensorArena::map(open_file.get(), 3);
  CHECK_THAT(unsealed.status().sentence(), Contains("rank 3") && Contains("not sealed"));
  CHECK(unsealed.status().rank() == 3);
  REQUIRE(::ftruncate(open_file.get(), 4096) == 0);
  CHECK_FALSE(TensorArena::map(open_file.get(), 3).ok());
}

TEST_CASE("A forked child reads the parent's tensors and writes to none of them, revoked or not") {
  const auto arena = arena_of();
  std::byte* const block = arena->take(16 * page()).value();
  std::memset(block, 1, 16 * page());
  revoke_one(*arena, block + 4 * page(), 4 * page());
  std::memset(block + 4 * page(), 2, 4 * page());
  const int code = in_child([&] {
    if (!all_are(block, 4 * page(), 1) || !all_are(block + 8 * page(), 8 * page(), 1)) return 1;
    if (!all_are(block + 4 * page(), 4 * page(), 2)) return 2;
    std::memset(block, 9, 16 * page());
    // A child of the child has the child's bytes, and none of the parent's pages either.
    const int inner = in_child([&] { return all_are(block, 16 * page(), 9) ? 0 : 4; });
    if (inner != 0) return 3;
    arena->give_back(block);
    return all_are(block, 16 * page(), 9) ? 0 : 5;
  });
  CHECK(code == 0);
  CHECK(all_are(block, 4 * page(), 1));
  CHECK(all_are(block + 4 * page(), 4 * page(), 2));
  CHECK(all_are(block + 8 * page(), 8 * page(), 1));
  CHECK(arena->taken_bytes() == 16 * page());
}

TEST_CASE("A fork while other threads take and free tensors leaves the child able to do the same") {
  const auto arena = arena_of();
  std::atomic<bool> stop{false};
  std::thread worker([&] {
    while (!stop.load()) {
      const auto memory = allocate_tensor_memory(arena, 5000);
      if (memory.ok()) static_cast<void>(free_tensor_memory(memory.value().data));
    }
  });
  for (int round = 0; round < 20; ++round) {
    const auto kept = allocate_tensor_memory(arena, 100);
    REQUIRE(kept.ok());
    CHECK(in_child([&] { return free_tensor_memory(kept.value().data).ok() ? 0 : 1; }) == 0);
    CHECK(free_tensor_memory(kept.value().data).ok());
  }
  stop.store(true);
  worker.join();
  CHECK(arena->taken_bytes() == 0);
}

TEST_CASE("Memory is freed by its address alone, once, and outlives whoever made its arena") {
  auto arena = arena_of();
  const auto shared = allocate_tensor_memory(arena, 1);
  const auto own = allocate_tensor_memory(nullptr, 100);
  REQUIRE((shared.ok() && own.ok()));
  CHECK(shared.value().shared);
  CHECK(shared.value().bytes == page());
  CHECK_FALSE(own.value().shared);
  arena.reset();
  std::memset(shared.value().data, 1, shared.value().bytes);
  std::memset(own.value().data, 1, own.value().bytes);
  CHECK(free_tensor_memory(shared.value().data + 1).code() == Code::kInvalidArgument);
  CHECK(free_tensor_memory(shared.value().data).ok());
  CHECK(free_tensor_memory(own.value().data).ok());
  CHECK(free_tensor_memory(own.value().data).code() == Code::kInvalidArgument);
  CHECK(free_tensor_memory(nullptr).ok());
  CHECK(allocate_tensor_memory(nullptr, SIZE_MAX).status().code() == Code::kSystem);
}
