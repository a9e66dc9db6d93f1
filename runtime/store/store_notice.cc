// Rank 0 listens at a name that the ranks of its host compute from the store's address and the job's key. A rank that
// connects gets one packet. The packet stays readable after rank 0 has closed its end, so rank 0 waits for no answer.
#include "runtime/store/store_notice.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <span>

#include "runtime/net/unix_socket.h"
#include "runtime/store/job_key.h"

namespace rueda::core {
namespace {

constexpr size_t kMostSentence = 4096;
constexpr std::chrono::seconds kSlice{1};

bool readable(int fd, Deadline deadline) {
  pollfd watched{fd, POLLIN, 0};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left(kSlice));
  return ::poll(&watched, 1, static_cast<int>(left.count())) > 0;
}

}  // namespace

std::string notice_name(const StoreLocation& where) {
  return "rueda-no-store-" + std::to_string(::geteuid()) + "-" + std::to_string(where.port) + "-" +
         key_mark(where.key, where.job + " at " + where.host);
}

void give_notice(const std::string& name, const std::string& sentence, int count, Deadline deadline) {
  const auto listener = listen_abstract(name);
  if (!listener.ok()) return;  // the other ranks then find out at their deadline
  const std::string packet = sentence.substr(0, kMostSentence);
  while (count > 0 && !deadline.passed()) {
    if (!readable(listener.value().get(), deadline)) continue;
    const AcceptedSocket accepted = accept_one(listener.value().get());
    if (!accepted.fd.valid() && accepted.error != EAGAIN) return;
    if (!accepted.fd.valid() || !check_same_user(accepted.fd.get()).ok()) continue;
    send_packet(accepted.fd.get(), std::as_bytes(std::span(packet)));
    --count;
  }
}

std::optional<std::string> read_notice(const std::string& name) {
  const DialledSocket dialled = dial_abstract(name);
  if (!dialled.fd.valid() || !check_same_user(dialled.fd.get()).ok()) return std::nullopt;
  if (!readable(dialled.fd.get(), Deadline::after(kSlice))) return std::nullopt;
  const Packet packet = receive_packet(dialled.fd.get(), kMostSentence, 0);
  if (packet.kind != PacketKind::kPacket) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(packet.bytes.data()), packet.bytes.size());
}

}  // namespace rueda::core
