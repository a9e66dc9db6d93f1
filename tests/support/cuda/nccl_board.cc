// Boards are anonymous files: a process opens that of another through /proc, so nothing is left behind when either is
// killed. Processes that do not see each other's /proc have a folder for them.
#include "tests/support/cuda/nccl_board.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace rueda::test {
namespace {

struct KnownBoard {
  std::weak_ptr<Board> board;
  std::shared_ptr<Board> kept;  ///< by the process that made it, until all have joined
  int file = -1;
};

struct KnownBoards {
  std::mutex mutex;
  std::map<std::string, KnownBoard> by_name;
};

KnownBoards& known_boards() {
  static auto* const one = new KnownBoards;
  return *one;
}

std::shared_ptr<Board> map_board(int file) {
  void* const memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return nullptr;
  return {static_cast<Board*>(memory), [](Board* board) { ::munmap(board, sizeof(Board)); }};
}

}  // namespace

cuda::NcclId make_board() {
  static std::atomic<int> last{0};
  cuda::NcclId id{};
  const char* const folder = std::getenv("STANDIN_NCCL_FOLDER");
  std::string path = folder == nullptr ? "" : std::string(folder) + "/board-XXXXXX";
  const int file = folder == nullptr ? ::memfd_create("rueda-standin-nccl", MFD_CLOEXEC) : ::mkstemp(path.data());
  if (file < 0 || ::ftruncate(file, sizeof(Board)) != 0) return id;
  if (folder == nullptr) path = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file);
  std::snprintf(id.bytes.data(), id.bytes.size(), "%s#%d", path.c_str(), ++last);
  const std::lock_guard lock(known_boards().mutex);
  KnownBoard& known = known_boards().by_name[id.bytes.data()];
  known.kept = map_board(file);
  known.board = known.kept;
  known.file = file;
  return id;
}

std::shared_ptr<Board> open_board(const cuda::NcclId& id) {
  const std::lock_guard lock(known_boards().mutex);
  KnownBoard& known = known_boards().by_name[id.bytes.data()];
  if (auto board = known.board.lock()) return board;
  const std::string name(id.bytes.data());
  const int file = ::open(name.substr(0, name.find('#')).c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  std::shared_ptr<Board> board = map_board(file);
  ::close(file);
  known.board = board;
  return board;
}

void forget_board(const cuda::NcclId& id) {
  const std::lock_guard lock(known_boards().mutex);
  KnownBoard& known = known_boards().by_name[id.bytes.data()];
  if (known.file >= 0) ::close(known.file);
  known.file = -1;
  known.kept = nullptr;
}

bool Transfer::step(NcclFaults& faults) {
  if (done()) return false;
  const uint64_t taken = box_->taken.load();
  const bool full = box_->posted.load() != taken;
  if (sends_ == full) return false;
  const size_t bytes = std::min(kBoxBytes, bytes_ - at_);
  if (sends_) {
    box_->length = bytes_;
    box_->registered = registered_ ? 1 : 0;
    std::memcpy(box_->chunk.data(), memory_ + at_, bytes);
    box_->posted.fetch_add(1);
  } else {
    if (box_->length != bytes_) faults.length.store(true);
    if ((box_->registered != 0) != registered_) faults.mixed.store(true);
    std::memcpy(memory_ + at_, box_->chunk.data(), bytes);
    box_->taken.fetch_add(1);
  }
  at_ += bytes;
  return true;
}

}  // namespace rueda::test
