// Requests are numbered, since a store answers them in any order: a `get` may wait for minutes while others pass it.
// One frame is in the stream's hands at a time; the rest queues behind it.
#include "runtime/store/store_pipe.h"

#include <utility>

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
  asked_.emplace(id, std::move(answer));
  StoreRequest numbered = request;
  numbered.id = id;
  send(numbered);
  if (!std::exchange(reading_, true)) read();
  return id;
}

void StorePipe::cancel(uint64_t number) {
  const auto id = static_cast<uint32_t>(number);
  if (asked_.erase(id) == 0 || !broken_.ok()) return;
  StoreRequest request;
  request.operation = StoreOperation::kCancel;
  request.id = id;
  send(request);
}

void StorePipe::read() {
  reader_.read(stream_, kMaxStoreFrameBytes, {}, [this](const Status& status, std::span<const std::byte> body) {
    status.ok() ? take(body) : fail(status);
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

void StorePipe::send(const StoreRequest& request) {
  out_.push_back(encode(request));
  if (out_.size() == 1) write();
}

void StorePipe::write() {
  stream_.write(out_.front(), [this](const Status& status, size_t) {
    if (!status.ok()) return fail(status);
    out_.pop_front();
    if (!out_.empty()) write();
  });
}

void StorePipe::fail(const Status& why) {
  if (!broken_.ok()) return;
  broken_ = why;
  stream_.close();
  for (auto& [id, answer] : std::exchange(asked_, {})) {
    StoreReply reply;
    reply.status = broken_;
    answer(std::move(reply));
  }
}

}  // namespace rueda::core
