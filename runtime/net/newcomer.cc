// The steps of a listener's side of a connection, each begun by the end of the one before it. Any failure, and the end
// of its 2 s, ends the newcomer.
#include "runtime/net/newcomer.h"

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <span>
#include <utility>

#include "runtime/net/transport_epoch.h"

namespace rueda::core {

namespace {

constexpr std::chrono::seconds kProofTime{2};
constexpr std::byte kAcceptedByte{kAccepted};

}  // namespace

Newcomer::Newcomer(boost::asio::io_context& io, UniqueFd fd, HelloScope scope, std::shared_ptr<TlsContext> tls)
    : io_(io),
      tls_(std::move(tls)),
      stream_(std::make_unique<SecureStream>(io, std::move(fd), nullptr, StreamSide::kListener)),
      hello_(std::move(scope)),
      timer_(io),
      alive_(std::make_shared<bool>(true)) {}

Newcomer::~Newcomer() { *alive_ = false; }

void Newcomer::start(Finished finished) {
  finished_ = std::move(finished);
  timer_.expires_after(kProofTime);
  timer_.async_wait([this, alive = alive_](const boost::system::error_code& error) {
    if (!error && *alive) end(Status(Code::kTimeout, "it did not prove the job's key within 2 s"));
  });
  read_purpose();
}

SecureStream::Done Newcomer::then(void (Newcomer::*next)()) {
  return [this, next](const Status& status, size_t) {
    if (status.ok()) {
      (this->*next)();
    } else {
      end(status);
    }
  };
}

void Newcomer::read_purpose() { stream_->read(std::span(&letter_, 1), then(&Newcomer::secure)); }

void Newcomer::secure() {
  silent_ = false;
  if (letter_ == std::byte{kPurposeData}) {
    read_first();
    return;
  }
  if (letter_ != std::byte{kPurposeControl}) {
    end(Status(Code::kSystem, "it speaks another protocol"));
    return;
  }
  purpose_ = HelloPurpose::kControl;
  stream_ = std::make_unique<SecureStream>(io_, stream_->release(), tls_, StreamSide::kListener);
  stream_->handshake([this](const Status& status) { then (&Newcomer::bind_hello)(status, 0); });
}

void Newcomer::bind_hello() {
  const auto binding = stream_->binding();
  if (!binding.ok()) return end(binding.status());
  hello_.bind(binding.value());
  read_first();
}

void Newcomer::read_first() { stream_->read(first_, then(&Newcomer::answer)); }

void Newcomer::answer() {
  const auto second = hello_.on_first(first_);
  if (!second.ok() || hello_.route().purpose != purpose_) {
    end(second.ok() ? Status(Code::kSystem, "its hello is for another purpose than its first byte") : second.status());
    return;
  }
  second_ = second.value();
  stream_->write(second_, then(&Newcomer::read_third));
}

void Newcomer::read_third() { stream_->read(third_, then(&Newcomer::accept)); }

void Newcomer::accept() {
  const Status proven = hello_.on_third(third_);
  if (!proven.ok()) {
    end(proven);
    return;
  }
  stream_->write(std::span(&kAcceptedByte, 1), [this](const Status& status, size_t) { end(status); });
}

void Newcomer::end(const Status& status) {
  timer_.cancel();
  const Finished finished = std::move(finished_);
  finished(*this, status);  // destroys this
}

}  // namespace rueda::core
