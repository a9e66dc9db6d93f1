// Both ends of `hvdrun --dump`:
//
//   hvdrun --dump PID            hvdrun of the job                 ranks
//     | connect @rueda-hvdrun-PID |
//     |-------------------------->| store: asks for dump 1 ------> |
//     |                           | <------ each rank's records -- |
//     |                           | settled? else 0.7 s later dump 2
//     | <--- descriptor of a memory file with the merged JSON
//
// The answer is a descriptor and not bytes, because records may be large and the visitor slow: one packet is sent, and
// the job's loop never waits for the visitor. Ranks that do not answer within 5 s are left out. Workers of an elastic
// job that are on their way into a plan may have nothing that could answer; they get half a second after all others.

#include "launcher/dump_desk.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "launcher/desk_visit.h"
#include "runtime/diagnosis/divergence.h"
#include "runtime/net/unix_socket.h"

namespace rueda::core::launcher {
namespace {

constexpr std::chrono::milliseconds kPatience{5000};  // for ranks that are stopped, or have not called init yet
constexpr std::chrono::milliseconds kPatienceWithUnsure{500};
constexpr std::chrono::milliseconds kSecondLook{700};
constexpr size_t kMaxNoteBytes = 64;

constexpr const char* kDumpDesk = "rueda-hvdrun-";  // before the pid

/// A memory file that holds `text`; invalid if it cannot be made.
UniqueFd file_of(const std::string& text) {
  UniqueFd file(memfd_create("rueda-dump", MFD_CLOEXEC));
  for (size_t done = 0; file.valid() && done < text.size();) {
    const ssize_t wrote = ::write(file.get(), text.data() + done, text.size() - done);
    if (wrote <= 0) return UniqueFd();
    done += static_cast<size_t>(wrote);
  }
  return file;
}

std::string contents(int file) {
  std::string text;
  char piece[16384];
  for (ssize_t got = 0; (got = ::pread(file, piece, sizeof piece, static_cast<off_t>(text.size()))) > 0;) {
    text.append(piece, static_cast<size_t>(got));
  }
  return text;
}

}  // namespace

DumpDesk::DumpDesk(EventLoop& loop, JobStore& store, std::function<Expected()> expected)
    : loop_(loop), store_(store), expected_(std::move(expected)) {}

Status DumpDesk::open() {
  Result<UniqueFd> listener = listen_abstract(fmt::format("{}{}", kDumpDesk, getpid()));
  if (!listener.ok()) return listener.status();
  listener_ = std::move(listener).value();
  watch_ = std::make_unique<FdWatch>(loop_, listener_.get(), Interest::kRead);
  patience_ = std::make_unique<Timer>(loop_);
  watch_->arm([this] { accept(); });
  return {};
}

DumpDesk::~DumpDesk() {
  if (visitor_.valid() && !first_look_.empty()) answer(first_look_);
}

void DumpDesk::accept() {
  if (visitor_.valid()) return;  // `answer` arms the watch again
  AcceptedSocket socket = accept_one(listener_.get());
  if (socket.error != 0 && socket.error != EAGAIN) return patience_->start(kVisitorPause, [this] { accept(); });
  if (!socket.fd.valid() || !check_same_user(socket.fd.get()).ok()) return watch_->arm([this] { accept(); });
  visitor_ = std::move(socket.fd);
  first_look_.clear();
  ask();
}

void DumpDesk::ask() {
  Expected expected = expected_();
  unsure_ = {expected.unsure.begin(), expected.unsure.end()};
  sure_ = {expected.ranks.begin(), expected.ranks.end()};
  for (const int rank : unsure_) sure_.erase(rank);
  asked_ = std::move(expected.ranks);
  number_ = store_.ask_for_dumps(
      asked_, [this](int64_t number, int rank) { loop_.post([this, number, rank] { note(number, rank); }); });
  patience_->start(kPatience, [this] { look(); });
  if (sure_.empty()) wait_for_answers();
}

void DumpDesk::note(int64_t number, int rank) {
  // Answers to an earlier request, which ran out of patience, do not count.
  if (!visitor_.valid() || number != number_) return;
  unsure_.erase(rank);
  const bool last = sure_.erase(rank) > 0;
  if (sure_.empty() && (last || unsure_.empty())) wait_for_answers();
}

/// All have answered that surely can.
void DumpDesk::wait_for_answers() {
  if (unsure_.empty()) return look();
  patience_->start(kPatienceWithUnsure, [this] { look(); });
}

void DumpDesk::look() {
  patience_->cancel();
  std::vector<RankDump> dumps;
  for (const std::string& json : store_.dumps(std::exchange(number_, 0), asked_)) {
    Result<RankDump> dump = dump_from_json(json);
    if (dump.ok()) dumps.push_back(std::move(dump).value());
  }
  if (dumps.empty() && !first_look_.empty()) return answer(first_look_);
  MergedDumps merged = merge_dumps(dumps);
  if (merged.settled || !first_look_.empty()) return answer(merged.json);
  first_look_ = std::move(merged.json);
  patience_->start(kSecondLook, [this] { ask(); });
}

void DumpDesk::answer(const std::string& merged) {
  const UniqueFd file = file_of(merged);
  const int descriptors[] = {file.get()};
  if (file.valid()) send_packet(visitor_.get(), std::as_bytes(std::span("dump", 4)), descriptors);
  visitor_.reset();
  watch_->arm([this] { accept(); });
}

Result<std::string> fetch_dump(int64_t pid) {
  const auto packet = visit_desk(kDumpDesk, pid, {}, kMaxNoteBytes, 1);
  if (!packet.ok()) return packet.status();
  if (packet.value().descriptors.empty()) {
    return Status(Code::kSystem, fmt::format("hvdrun (pid {}) ended before it answered", pid));
  }
  return contents(packet.value().descriptors.front().get());
}

}  // namespace rueda::core::launcher
