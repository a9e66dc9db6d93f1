// The steps of a client: handshake, then frame after frame. Reading goes on while requests wait, so that the end of the
// stream ends their wait; it pauses while the client does not take its answers, which bounds their memory. A step that
// throws, for want of memory, ends the session: the client hears of an end, and not of an answer that is lost.
#include "runtime/store/store_session.h"

#include <exception>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/shortage.h"

namespace rueda::core {
namespace {

/// No more is read from a client that has this much to take.
constexpr size_t kMostUntaken = 2 * kMaxStoreFrameBytes;
constexpr size_t kMostAsked = 1 << 16;

}  // namespace

StoreSession::StoreSession(boost::asio::io_context& io, UniqueFd socket, std::shared_ptr<TlsContext> tls,
                           StoreDesk& desk, Rules rules, std::function<void()> ended)
    : desk_(desk),
      rules_(rules),
      ended_(std::move(ended)),
      stream_(io, std::move(socket), std::move(tls), StreamSide::kListener),
      read_timer_(io),
      write_timer_(io) {}

StoreSession::~StoreSession() {
  for (const auto& [id, number] : asked_) desk_.cancel(number);
}

void StoreSession::start() {
  arm(read_timer_, rules_.proof);
  stream_.handshake([this](const Status& status) { status.ok() ? or_end([this] { read_on(); }) : end(); });
}

void StoreSession::arm(boost::asio::steady_timer& timer, std::chrono::milliseconds limit) {
  timer.expires_after(limit);
  timer.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    if (const auto self = weak.lock(); self && !error) self->end();
  });
}

/// Reads the next frame, also while a `get` waits: the end of the stream ends the wait.
void StoreSession::read_on() {
  if (over_ || reading_ || out_bytes_ > kMostUntaken) return;
  reading_ = true;
  const auto begun = [this] {
    if (proven_) arm(read_timer_, rules_.silence);
  };
  reader_.read(stream_, proven_ ? kMaxStoreFrameBytes : kMaxFirstFrameBytes, begun,
               [this](const Status& status, std::span<const std::byte> body) {
                 reading_ = false;
                 status.ok() ? or_end([this, body] { on_request(body); }) : end();
               });
}

void StoreSession::on_request(std::span<const std::byte> body) {
  const auto request = decode_request(body);
  if (!request) return end();
  read_timer_.cancel();
  proven_ = true;
  request->operation == StoreOperation::kCancel ? cancel(request->id) : ask(*request);
  read_on();
}

void StoreSession::ask(const StoreRequest& request) {
  const uint32_t id = request.id;
  if (asked_.size() >= kMostAsked || !asked_.emplace(id, 0).second) return end();
  const uint64_t number = desk_.ask(request, [weak = weak_from_this(), id](StoreReply reply) {
    const auto self = weak.lock();
    if (!self) return;
    self->asked_.erase(id);
    reply.id = id;
    self->or_end([&] { self->send(reply); });
  });
  if (const auto waits = asked_.find(id); waits != asked_.end()) waits->second = number;
}

void StoreSession::cancel(uint32_t id) {
  const auto found = asked_.find(id);
  if (found == asked_.end()) return;
  const uint64_t number = found->second;
  asked_.erase(found);  // first: a desk that breaks answers all that is left
  desk_.cancel(number);
}

void StoreSession::send(const StoreReply& reply) {
  if (over_) return;
  out_.push_back(encode(reply));
  out_bytes_ += out_.back().size();
  if (out_.size() == 1) write();
}

void StoreSession::write() {
  arm(write_timer_, rules_.silence);
  stream_.write(out_.front(), [this](const Status& status, size_t) {
    if (!status.ok()) return end();
    write_timer_.cancel();
    out_bytes_ -= out_.front().size();
    out_.pop_front();
    or_end([this] {
      if (!out_.empty()) write();
      read_on();
    });
  });
}

template <typename Step>
void StoreSession::or_end(Step&& step) {
  try {
    step();
  } catch (const std::exception& error) {
    log(LogLevel::kError, "store: a client's session ends: {}", failure_of(error).sentence());
    end();
  }
}

void StoreSession::end() {
  over_ = true;
  stream_.close();
  read_timer_.cancel();
  write_timer_.cancel();
  for (const auto& [id, number] : std::exchange(asked_, {})) desk_.cancel(number);
  if (const auto ended = std::exchange(ended_, nullptr)) ended();
}

}  // namespace rueda::core
