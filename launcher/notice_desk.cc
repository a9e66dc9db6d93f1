// Both ends of `hvdrun --signal-removal` and `hvdrun --signal-hosts`:
//
//   visitor -> 'R' and the host's name, or 'H'   one packet
//           <- '0' or '1' and a sentence         '0' if the notice was taken, '1' if it was refused
//
// A visitor has a second to send its packet, so that one that sends nothing keeps no other waiting.

#include "launcher/notice_desk.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <span>
#include <utility>

#include "launcher/desk_visit.h"

namespace rueda::core::launcher {
namespace {

constexpr const char* kNoticeDesk = "rueda-notice-";
constexpr char kRemoval = 'R', kHosts = 'H';
constexpr std::chrono::milliseconds kRequestLimit{1000};
constexpr size_t kMostRequestBytes = 1024;
constexpr size_t kMostAnswerBytes = 8192;

std::string text_of(const Packet& packet) {
  return {reinterpret_cast<const char*>(packet.bytes.data()), packet.bytes.size()};
}

Result<std::string> tell_hvdrun(int64_t pid, const std::string& request) {
  const auto packet = visit_desk(kNoticeDesk, pid, request, kMostAnswerBytes, 0);
  if (packet.status().code() == Code::kInvalidArgument) {
    return Status(Code::kInvalidArgument, packet.status().sentence() + "; only an hvdrun with an elastic job does");
  }
  if (!packet.ok()) return packet.status();
  const std::string answer = text_of(packet.value());
  if (answer.empty()) return Status(Code::kSystem, fmt::format("hvdrun (pid {}) sent an empty answer", pid));
  if (answer.front() == '0') return answer.substr(1);
  return Status(Code::kInvalidArgument, answer.substr(1));
}

}  // namespace

NoticeDesk::NoticeDesk(EventLoop& loop, Notices notices) : loop_(loop), notices_(std::move(notices)), patience_(loop) {}

Status NoticeDesk::open() {
  Result<UniqueFd> listener = listen_abstract(fmt::format("{}{}", kNoticeDesk, getpid()));
  if (!listener.ok()) return listener.status();
  listener_ = std::move(listener).value();
  visits_ = std::make_unique<FdWatch>(loop_, listener_.get(), Interest::kRead);
  await();
  return {};
}

void NoticeDesk::await() {
  visits_->arm([this] { accept(); });
}

void NoticeDesk::accept() {
  AcceptedSocket socket = accept_one(listener_.get());
  if (socket.error != 0 && socket.error != EAGAIN) return patience_.start(kVisitorPause, [this] { accept(); });
  if (!socket.fd.valid() || !check_same_user(socket.fd.get()).ok()) return await();
  visitor_ = std::move(socket.fd);
  request_ = std::make_unique<FdWatch>(loop_, visitor_.get(), Interest::kRead);
  request_->arm([this] { read(); });
  patience_.start(kRequestLimit, [this] { leave(); });
}

void NoticeDesk::read() {
  const Packet packet = receive_packet(visitor_.get(), kMostRequestBytes, 0);
  if (packet.kind == PacketKind::kPacket) {
    const Result<std::string> done = take(text_of(packet));
    const std::string answer =
        ((done.ok() ? "0" + done.value() : "1" + done.status().sentence())).substr(0, kMostAnswerBytes);
    send_packet(visitor_.get(), std::as_bytes(std::span(answer)));
  }
  leave();
}

void NoticeDesk::leave() {
  patience_.cancel();
  request_.reset();
  visitor_.reset();
  await();
}

Result<std::string> NoticeDesk::take(const std::string& request) const {
  if (request.starts_with(kRemoval)) return notices_.removal(request.substr(1));
  if (request == std::string(1, kHosts)) return notices_.hosts();
  return Status(Code::kInvalidArgument,
                "this hvdrun does not know such a notice; use the same version of hvdrun for both");
}

Result<std::string> signal_removal(int64_t pid, const std::string& host) { return tell_hvdrun(pid, kRemoval + host); }

Result<std::string> signal_hosts(int64_t pid) { return tell_hvdrun(pid, std::string(1, kHosts)); }

}  // namespace rueda::core::launcher
