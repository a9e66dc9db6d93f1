// Moves output from the ranks' pipes to the link, with a window as in TCP: each byte sent shrinks it, each byte that
// hvdrun has printed opens it again. A pipe that is readable while the window is shut is parked, unread, and pumped
// when the window opens.
//
// A pipe ends at its end of file, or when it is empty and `writers_gone` was called. The second case covers a process
// outside the job that holds the write end: it could keep the pipe open for ever.

#include "launcher/output_taps.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace rueda::core::launcher {
namespace {

constexpr int64_t kTapBytes = 16 << 10;  // per read, so that ranks take turns and several fit into the window

}  // namespace

void OutputTaps::add(int rank, int stream, UniqueFd fd) {
  // An agent of an elastic job starts workers again and again.
  std::erase_if(taps_, [](const auto& known) { return !known->fd.valid(); });
  auto tap = std::make_unique<Tap>(Tap{rank, stream, std::move(fd), nullptr});
  tap->watch = std::make_unique<FdWatch>(loop_, tap->fd.get(), Interest::kRead);
  arm(*tap);
  taps_.push_back(std::move(tap));
}

void OutputTaps::arm(Tap& tap) {
  tap.watch->arm([this, &tap] { pump(tap); });
}

void OutputTaps::pump(Tap& tap) {
  if (window_ <= 0 && !discard_) {
    parked_.push_back(&tap);
    return;
  }
  std::array<char, kTapBytes> buffer;
  const int64_t room = discard_ ? kTapBytes : std::min(kTapBytes, window_);
  const ssize_t got = read(tap.fd.get(), buffer.data(), static_cast<size_t>(room));
  const bool empty = got < 0 && (errno == EAGAIN || errno == EINTR);
  if (got == 0 || (got < 0 && !empty) || (empty && writers_gone_)) return close(tap);
  if (got > 0 && !discard_) {
    window_ -= got;
    send_({MessageType::kOutput, tap.rank, tap.stream, std::string(buffer.data(), static_cast<size_t>(got))});
  }
  if (writers_gone_) {
    loop_.post(
        [this, &tap] { pump(tap); });  // no `arm`: an empty pipe that another process holds open never becomes readable
  } else {
    arm(tap);
  }
}

void OutputTaps::close(Tap& tap) {
  tap.watch.reset();
  tap.fd.reset();
  send_({MessageType::kOutput, tap.rank, tap.stream, {}});
  if (drained() && drained_) drained_();
}

void OutputTaps::taken(int64_t bytes) {
  window_ += bytes;
  for (Tap* tap : std::exchange(parked_, {})) pump(*tap);
}

void OutputTaps::discard() {
  discard_ = true;
  for (Tap* tap : std::exchange(parked_, {})) pump(*tap);
}

void OutputTaps::writers_gone() {
  if (std::exchange(writers_gone_, true)) return;
  for (const auto& tap : taps_) {
    const bool parked = std::find(parked_.begin(), parked_.end(), tap.get()) != parked_.end();
    if (!tap->fd.valid() || parked) continue;
    tap->watch->disarm();
    loop_.post([this, tap = tap.get()] { pump(*tap); });
  }
}

bool OutputTaps::drained() const {
  return std::none_of(taps_.begin(), taps_.end(), [](const auto& tap) { return tap->fd.valid(); });
}

}  // namespace rueda::core::launcher
