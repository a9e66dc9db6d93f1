#include "runtime/rendezvous/store_session.h"

#include <algorithm>
#include <utility>

#include "runtime/rendezvous/death.h"

namespace rueda::core {
namespace {

constexpr std::chrono::milliseconds kLongestWait = std::chrono::hours(24 * 365);

Status death_status(const std::string& value) {
  const auto verdict = decode_death(value);
  return verdict ? verdict->status() : Status(Code::kPeerLost, "the job has ended");
}

}  // namespace

StoreSession::StoreSession(boost::asio::io_context& io, UniqueFd socket, std::shared_ptr<TlsContext> tls,
                           KeyTable& table, Rules rules, std::function<void()> ended)
    : table_(table),
      rules_(std::move(rules)),
      ended_(std::move(ended)),
      stream_(io, std::move(socket), std::move(tls), StreamSide::kListener),
      silence_timer_(io),
      get_timer_(io) {}

StoreSession::~StoreSession() { stop_waiting(); }

void StoreSession::start() {
  arm_silence(rules_.proof);
  stream_.handshake([this](const Status& status) { status.ok() ? read_request() : end(); });
}

void StoreSession::arm_silence(std::chrono::milliseconds limit) {
  silence_timer_.expires_after(limit);
  silence_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    if (const auto self = weak.lock(); self && !error) self->end();
  });
}

void StoreSession::read_request() {
  const auto begun = [this] {
    if (proven_) arm_silence(rules_.silence);
  };
  reader_.read(
      stream_, proven_ ? kMaxStoreFrameBytes : kMaxFirstFrameBytes, begun,
      [this](const Status& status, std::span<const std::byte> body) { status.ok() ? on_request(body) : end(); });
}

void StoreSession::on_request(std::span<const std::byte> body) {
  auto request = decode_request(body);
  if (!request) return end();
  silence_timer_.cancel();
  proven_ = true;
  if (answering_) {  // read on only when it has had its turn: at most one lies here
    next_ = std::move(*request);
    return;
  }
  answer(*request);
  read_request();  // also while a get waits: the end of the stream ends the wait
}

void StoreSession::answer(const StoreRequest& request) {
  answering_ = true;
  if (request.operation == StoreOperation::kGet) return answer_get(request);
  StoreReply reply;
  if (request.operation == StoreOperation::kSet) {
    reply.status = table_.set(request.key, request.value);
  } else {
    const auto sum = table_.add(request.key, request.number);
    reply.status = sum.status();
    if (sum.ok()) reply.number = sum.value();
  }
  send(reply);
}

void StoreSession::answer_get(const StoreRequest& request) {
  if (const std::string* value = table_.find(request.key)) return send({{}, 0, *value});
  start_waiting(request);
}

void StoreSession::start_waiting(const StoreRequest& request) {
  const std::string* end = ends(request) ? table_.find(rules_.end_key) : nullptr;
  if (end != nullptr) return send({death_status(*end), 0, {}});
  waiter_ = table_.wait(request.key, [this](const std::string& value) {
    waiter_.reset();
    stop_waiting();
    send({{}, 0, value});
  });
  if (ends(request)) {
    end_waiter_ = table_.wait(rules_.end_key, [this](const std::string& value) {
      end_waiter_.reset();
      stop_waiting();
      send({death_status(value), 0, {}});
    });
  }
  if (request.number < 0) return;
  get_timer_.expires_after(std::min(std::chrono::milliseconds(request.number), kLongestWait));
  get_timer_.async_wait(
      [weak = weak_from_this(), key = request.key, number = *waiter_](const boost::system::error_code& error) {
        const auto self = weak.lock();
        if (!self || error || self->waiter_ != number) return;
        self->stop_waiting();
        self->send({Status(Code::kTimeout, "store: nobody set \"" + key + "\" before the deadline"), 0, {}});
      });
}

void StoreSession::stop_waiting() {
  if (waiter_) table_.cancel(*std::exchange(waiter_, std::nullopt));
  if (end_waiter_) table_.cancel(*std::exchange(end_waiter_, std::nullopt));
  get_timer_.cancel();
}

void StoreSession::send(const StoreReply& reply) {
  out_ = encode(reply);
  arm_silence(rules_.silence);
  stream_.write(out_, [this](const Status& status, size_t) {
    if (!status.ok()) return end();
    silence_timer_.cancel();
    answering_ = false;
    if (!next_) return;
    answer(*std::exchange(next_, std::nullopt));
    read_request();
  });
}

void StoreSession::end() {
  stop_waiting();
  silence_timer_.cancel();
  stream_.close();
  if (const auto ended = std::exchange(ended_, nullptr)) ended();
}

}  // namespace rueda::core
