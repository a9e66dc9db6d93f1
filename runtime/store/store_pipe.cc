// Requests are numbered, since a store answers them in any order: a `get` may wait for minutes while others pass it.
// One frame is in the stream's hands at a time; the rest queues behind it.
//
// Whatever throws, for want of memory or in an answer's own code, breaks the connection: a request that was lost on the
// way would leave its asker waiting for ever, and a broken connection answers them all.
#include "runtime/store/store_pipe.h"

#include <exception>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/shortage.h"

namespace rueda::core {

StorePipe::StorePipe(boost::asio::io_context& io, UniqueFd socket, std::shared_ptr<TlsContext> tls)
    : stream_(io, std::move(socket), std::move(tls), StreamSide::kDialler) {}

StorePipe::~StorePipe() = default;

uint64_t StorePipe::ask(const StoreRequest& request, Answer answer) {
  do {
    ++last_id_;
  } while (last_id_ == 0 || asked_.count(last_id_) != 0);
  const uint32_t id = last_id_;
  if (!broken_.ok()) {
    StoreReply reply;
    reply.status = broken_;
    answer(std::move(reply));
    return id;
  }
  StoreRequest numbered = request;
  numbered.id = id;
  std::vector<std::byte> frame = encode(numbered);
  asked_.emplace(id, std::move(answer));
  send(std::move(frame));
  if (broken_.ok() && !std::exchange(reading_, true)) read();
  return id;
}

void StorePipe::cancel(uint64_t number) {
  const auto id = static_cast<uint32_t>(number);
  if (asked_.erase(id) == 0 || !broken_.ok()) return;
  StoreRequest request;
  request.operation = StoreOperation::kCancel;
  request.id = id;
  or_break([&] { send(encode(request)); });
}

void StorePipe::read() {
  or_break([this] {
    reader_.read(stream_, kMaxStoreFrameBytes, {}, [this](const Status& status, std::span<const std::byte> body) {
      status.ok() ? or_break([this, body] { take(body); }) : fail(status);
    });
  });
}

void StorePipe::take(std::span<const std::byte> body) {
  auto reply = decode_reply(body);
  if (!reply) return fail({Code::kPeerLost, "what answers at its address is not a store of Rueda"});
  read();
  const auto found = asked_.find(reply->id);
  if (found == asked_.end()) return;  // cancelled while the answer was on its way
  const Answer answer = std::move(found->second);
  asked_.erase(found);
  answer(std::move(*reply));
}

void StorePipe::send(std::vector<std::byte> frame) {
  or_break([this, &frame] {
    out_.push_back(std::move(frame));
    if (out_.size() == 1) write();
  });
}

void StorePipe::write() {
  stream_.write(out_.front(), [this](const Status& status, size_t) {
    if (!status.ok()) return fail(status);
    out_.pop_front();
    if (!out_.empty()) or_break([this] { write(); });
  });
}

template <typename Step>
void StorePipe::or_break(Step&& step) {
  try {
    step();
  } catch (const std::exception& error) {
    fail(failure_of(error));
  }
}

void StorePipe::fail(const Status& why) {
  if (!broken_.ok()) return;
  broken_ = why;
  stream_.close();
  for (auto& [id, answer] : std::exchange(asked_, {})) {
    try {
      StoreReply reply;
      reply.status = broken_;
      answer(std::move(reply));
    } catch (const std::exception& error) {  // the others still have to hear
      log(LogLevel::kError, "store: an answer was not taken: {}", failure_of(error).sentence());
    }
  }
}

}  // namespace rueda::core
