// Reads and writes messages without blocking the loop. The two directions end apart: if a write fails, the other end
// has closed, but its last messages (why it closed) are still in the socket, so reading goes on to the end of the file.
// If reading fails, nothing more is sent, because the other end's bytes can no longer be trusted.

#include "launcher/message_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace rueda::core::launcher {
namespace {

constexpr size_t kReadBytes = 64u << 10;

bool try_again(int error) { return error == EAGAIN || error == EINTR; }

}  // namespace

MessageLink::MessageLink(EventLoop& loop, UniqueFd in, UniqueFd out, MessageReader::Greeting greeting, Events events)
    : loop_(loop),
      in_(std::move(in)),
      out_(std::move(out)),
      reader_(greeting),
      events_(std::move(events)),
      readable_(loop, in_.get(), Interest::kRead),
      writable_(loop, out_.get(), Interest::kWrite) {
  for (const int fd : {in_.get(), out_.get()}) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  readable_.arm([this] { read(); });
}

void MessageLink::read() {
  std::array<std::byte, kReadBytes> buffer;
  const ssize_t got = ::read(in_.get(), buffer.data(), buffer.size());
  // ECONNRESET: the other end closed while some of our bytes were on their way.
  if (got == 0 || (got < 0 && errno == ECONNRESET)) return close({Code::kPeerLost, "the other end closed the link"});
  if (got < 0 && !try_again(errno)) {
    return close({Code::kSystem, fmt::format("cannot read from the link: {}", std::strerror(errno))});
  }
  if (got > 0) {
    reader_.feed(std::span(buffer).first(static_cast<size_t>(got)));
    deliver();
  }
  if (!closed_) readable_.arm([this] { read(); });
}

void MessageLink::deliver() {
  while (!closed_) {  // a message may make its receiver close this link
    auto next = reader_.next();
    if (!next.ok()) return close(next.status());
    if (!next.value()) return;
    events_.message(std::move(*next.value()));
  }
}

void MessageLink::send_bytes(std::vector<std::byte> bytes) {
  if (mute_) return;
  queue_.push_back(std::move(bytes));
  // Written by the loop and not here, so that `send` may be called from any callback and never blocks.
  if (std::exchange(writing_, true)) return;
  writable_.arm([this] { write(); });
}

void MessageLink::write() {
  while (!queue_.empty()) {
    const auto& first = queue_.front();
    const ssize_t put = ::write(out_.get(), first.data() + written_, first.size() - written_);
    if (put < 0 && try_again(errno)) return writable_.arm([this] { write(); });
    if (put < 0) {
      // The reader still gets what the other end sent before it closed, and then meets the end of the file.
      mute_ = true;
      queue_.clear();
      break;
    }
    written_ += static_cast<size_t>(put);
    if (written_ < first.size()) continue;
    queue_.pop_front();
    written_ = 0;
  }
  writing_ = false;
  written_ = 0;
  if (sent_) std::exchange(sent_, nullptr)();
}

void MessageLink::when_sent(std::function<void()> sent) {
  if (!writing_) return loop_.post(std::move(sent));
  sent_ = std::move(sent);
}

void MessageLink::fall_silent() {
  mute_ = true;
  writing_ = false;
  writable_.disarm();
  queue_.clear();
  if (sent_) loop_.post(std::exchange(sent_, nullptr));
}

void MessageLink::close(const Status& why) {
  if (std::exchange(closed_, true)) return;
  readable_.disarm();
  if (why.code() != Code::kPeerLost) fall_silent();
  events_.closed(why);
}

}  // namespace rueda::core::launcher
