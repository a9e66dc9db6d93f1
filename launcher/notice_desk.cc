// Both ends of `hvdrun --signal-removal`:
//
//   visitor -> the host's name           one packet
//           <- '0' or '1' and a sentence   '0' if the notice was taken, '1' if it was refused
//
// A visitor has a second to send its packet, so that one that sends nothing keeps no other waiting.

#include "launcher/removal_desk.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <span>
#include <utility>

#include "launcher/desk_visit.h"

namespace rueda::core::launcher {
namespace {

constexpr const char* kRemovalDesk = "rueda-removal-";
constexpr std::chrono::milliseconds kRequestLimit{1000};
constexpr size_t kMostNameBytes = 1024;
constexpr size_t kMostAnswerBytes = 8192;

std::string text_of(const Packet& packet) {
  return {reinterpret_cast<const char*>(packet.bytes.data()), packet.bytes.size()};
}

}  // namespace

RemovalDesk::RemovalDesk(EventLoop& loop, Tell tell) : loop_(loop), tell_(std::move(tell)), patience_(loop) {}

Status RemovalDesk::open() {
  Result<UniqueFd> listener = listen_abstract(fmt::format("{}{}", kRemovalDesk, getpid()));
  if (!listener.ok()) return listener.status();
  listener_ = std::move(listener).value();
  visits_ = std::make_unique<FdWatch>(loop_, listener_.get(), Interest::kRead);
  await();
  return {};
}

void RemovalDesk::await() {
  visits_->arm([this] { accept(); });
}

void RemovalDesk::accept() {
  AcceptedSocket socket = accept_one(listener_.get());
  if (!socket.fd.valid() || !check_same_user(socket.fd.get()).ok()) return await();
  visitor_ = std::move(socket.fd);
  request_ = std::make_unique<FdWatch>(loop_, visitor_.get(), Interest::kRead);
  request_->arm([this] { read(); });
  patience_.start(kRequestLimit, [this] { leave(); });
}

void RemovalDesk::read() {
  const Packet packet = receive_packet(visitor_.get(), kMostNameBytes, 0);
  if (packet.kind == PacketKind::kPacket) {
    const Result<std::string> done = tell_(text_of(packet));
    const std::string answer =
        ((done.ok() ? "0" + done.value() : "1" + done.status().sentence())).substr(0, kMostAnswerBytes);
    send_packet(visitor_.get(), std::as_bytes(std::span(answer)));
  }
  leave();
}

void RemovalDesk::leave() {
  patience_.cancel();
  request_.reset();
  visitor_.reset();
  await();
}

Result<std::string> ask_for_removal(int64_t pid, const std::string& host) {
  const auto packet = visit_desk(kRemovalDesk, pid, host, kMostAnswerBytes, 0);
  if (packet.status().code() == Code::kInvalidArgument) {
    return Status(Code::kInvalidArgument, packet.status().sentence() + "; only an hvdrun with an elastic job does");
  }
  if (!packet.ok()) return packet.status();
  const std::string answer = text_of(packet.value());
  if (answer.empty()) return Status(Code::kSystem, fmt::format("hvdrun (pid {}) sent an empty answer", pid));
  if (answer.front() == '0') return answer.substr(1);
  return Status(Code::kInvalidArgument, answer.substr(1));
}

}  // namespace rueda::core::launcher
