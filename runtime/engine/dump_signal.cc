// From a signal to the flight record, in steps that are each allowed where they run:
//
//     handler (any thread of the program)    marks the slot of each session and writes to its doorbell, an eventfd
//     coordinator thread                     wakes, takes the mark, and has the task thread write the record
//
// The handler may run on any thread at any moment, so it touches lock-free atomics only. A session that ends must know
// that no handler still holds its doorbell: it clears the slot's owner and then waits until `inside` is zero.
#include "runtime/engine/dump_signal.h"

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "runtime/base/mutex.h"

namespace rueda::core {
namespace {

/// One session's entry; free if `owner` is 0. A forked child inherits its parent's slots, which its handler must leave
/// alone: they name the parent's process.
struct Slot {
  std::atomic<pid_t> owner{0};
  std::atomic<int> doorbell{-1};
  std::atomic<bool> asked{false};
};

std::array<Slot, 16> all_slots;
std::atomic<int> inside{0};  ///< handlers that run
Mutex disposition;
int watched_signal RUEDA_GUARDED_BY(disposition) = 0;  ///< the signal that has our handler
size_t watchers RUEDA_GUARDED_BY(disposition) = 0;

void on_signal(int) {
  const int kept = errno;  // the interrupted code may be about to read it
  inside.fetch_add(1);
  const pid_t self = ::getpid();
  for (Slot& slot : all_slots) {
    if (slot.owner.load() != self) continue;
    slot.asked.store(true);
    const uint64_t one = 1;
    static_cast<void>(!::write(slot.doorbell.load(), &one, sizeof one));
  }
  inside.fetch_sub(1);
  errno = kept;
}

/// Ok if the signal has our handler afterwards. If the disposition is not the default, the signal belongs to the
/// program.
Status install(int signal) RUEDA_REQUIRES(disposition) {
  if (watchers != 0 && watched_signal == signal) return {};
  if (watchers != 0) {
    return {Code::kInvalidArgument,
            fmt::format("another session of this process watches {}; a process can watch one signal",
                        ::strsignal(watched_signal))};
  }
  struct sigaction known {};
  ::sigaction(signal, nullptr, &known);
  if (known.sa_handler != SIG_DFL) {
    return {Code::kInvalidArgument,
            fmt::format("the program handles this signal ({}) itself; name another one", ::strsignal(signal))};
  }
  struct sigaction ours {};
  ours.sa_handler = on_signal;
  ours.sa_flags = SA_RESTART;
  sigemptyset(&ours.sa_mask);
  if (::sigaction(signal, &ours, nullptr) != 0) return {Code::kSystem, std::strerror(errno)};
  watched_signal = signal;
  return {};
}

}  // namespace

Result<std::unique_ptr<DumpSignal>> DumpSignal::watch(int signal, int doorbell) {
  MutexLock lock(disposition);
  for (size_t i = 0; i < all_slots.size(); ++i) {
    if (all_slots[i].owner.load() == ::getpid())
      continue;  // a child may take its parent's: the parent has its own copy
    RUEDA_RETURN_IF_ERROR(install(signal));
    ++watchers;
    all_slots[i].asked.store(false);
    all_slots[i].doorbell.store(doorbell);
    all_slots[i].owner.store(::getpid());  // last: the handler looks at the rest only after this
    return std::unique_ptr<DumpSignal>(new DumpSignal(i));
  }
  return Status(Code::kInvalidArgument,
                fmt::format("{} sessions of this process already watch it; that is the limit", all_slots.size()));
}

DumpSignal::~DumpSignal() {
  MutexLock lock(disposition);
  all_slots[slot_].owner.store(0);
  while (inside.load() != 0) ::sched_yield();  // afterwards no handler writes to the doorbell any more
  if (--watchers != 0) return;
  // The program may have replaced our handler since; then it stays.
  struct sigaction known {};
  ::sigaction(watched_signal, nullptr, &known);
  if (known.sa_handler == on_signal) ::signal(watched_signal, SIG_DFL);
}

bool DumpSignal::take() { return all_slots[slot_].asked.load() && all_slots[slot_].asked.exchange(false); }

}  // namespace rueda::core
