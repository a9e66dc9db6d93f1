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

/// One session's; free where `owner` is 0. A forked child has its parent's places, which its handler must leave alone.
struct Place {
  std::atomic<pid_t> owner{0};
  std::atomic<int> doorbell{-1};
  std::atomic<bool> asked{false};
};

std::array<Place, 16> places;
std::atomic<int> inside{0};  ///< handlers that run
Mutex disposition;
int watched_signal RUEDA_GUARDED_BY(disposition) = 0;  ///< the signal that has our handler
size_t watchers RUEDA_GUARDED_BY(disposition) = 0;

void on_signal(int) {
  const int kept = errno;
  inside.fetch_add(1);
  const pid_t self = ::getpid();
  for (Place& place : places) {
    if (place.owner.load() != self) continue;
    place.asked.store(true);
    const uint64_t one = 1;
    static_cast<void>(!::write(place.doorbell.load(), &one, sizeof one));
  }
  inside.fetch_sub(1);
  errno = kept;
}

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
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i].owner.load() == ::getpid()) continue;  // a child takes its parent's
    RUEDA_RETURN_IF_ERROR(install(signal));
    ++watchers;
    places[i].asked.store(false);
    places[i].doorbell.store(doorbell);
    places[i].owner.store(::getpid());
    return std::unique_ptr<DumpSignal>(new DumpSignal(i));
  }
  return Status(Code::kInvalidArgument,
                fmt::format("{} sessions of this process already watch it; that is the limit", places.size()));
}

DumpSignal::~DumpSignal() {
  MutexLock lock(disposition);
  places[place_].owner.store(0);
  while (inside.load() != 0) ::sched_yield();  // nobody writes to the doorbell any more
  if (--watchers != 0) return;
  struct sigaction known {};
  ::sigaction(watched_signal, nullptr, &known);
  if (known.sa_handler == on_signal) ::signal(watched_signal, SIG_DFL);
}

bool DumpSignal::take() { return places[place_].asked.load() && places[place_].asked.exchange(false); }

}  // namespace rueda::core
