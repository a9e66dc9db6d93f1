#include "runtime/net/tcp_control.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstring>
#include <utility>

namespace rueda::core {

namespace asio = boost::asio;

namespace {

constexpr uint32_t kLastFrame = 0xffffffff;

}  // namespace

ControlConnection::ControlConnection(asio::io_context& io, std::unique_ptr<SecureStream> stream, std::string peer,
                                     int rank)
    : io_(io), peer_(std::move(peer)), rank_(rank), stream_(std::move(stream)) {}

void ControlConnection::start() { read_header(); }

void ControlConnection::stop() {
  stream_.reset();
  fail(Status(Code::kShutDown, "the control connection to " + peer_ + " was closed here", rank_));
}

void ControlConnection::send(std::span<const std::byte> frame) { queue(static_cast<uint32_t>(frame.size()), frame); }

void ControlConnection::close_send() { queue(kLastFrame, {}); }

void ControlConnection::queue(uint32_t header, std::span<const std::byte> frame) {
  {
    MutexLock lock(mutex_);
    if (send_closed_ || broken_.load()) return;  // `status` tells the caller
    if (frame.size() > kMaxFrameBytes) {
      status_ = Status(Code::kSystem,
                       "a control frame to " + peer_ + " has " + std::to_string(frame.size()) +
                           " bytes, the limit is " + std::to_string(kMaxFrameBytes),
                       rank_);
      return;
    }
    send_closed_ = header == kLastFrame;
    const auto* bytes = reinterpret_cast<const std::byte*>(&header);
    outgoing_.insert(outgoing_.end(), bytes, bytes + sizeof(header));
    outgoing_.insert(outgoing_.end(), frame.begin(), frame.end());
    bytes_unsent_.fetch_add(sizeof(header) + frame.size(), std::memory_order_release);
  }
  asio::post(io_, [self = shared_from_this()] { self->write_next(); });
}

void ControlConnection::write_next() {
  if (writing_ || stream_ == nullptr) return;
  {
    MutexLock lock(mutex_);
    leaving_.clear();
    leaving_.swap(outgoing_);
  }
  if (leaving_.empty()) return;
  writing_ = true;
  stream_->write(leaving_, [this](const Status& status, size_t bytes) {
    writing_ = false;
    if (!status.ok()) {
      fail(Status(Code::kPeerLost, "the control connection to " + peer_ + " broke: " + status.sentence(), rank_));
      return;
    }
    bytes_unsent_.fetch_sub(bytes, std::memory_order_release);
    write_next();
  });
}

void ControlConnection::read_header() {
  stream_->read(header_, [this](const Status& status, size_t) {
    if (!status.ok()) {
      const bool ended = status.code() == Code::kPeerLost;
      fail(Status(Code::kPeerLost,
                  peer_ + (ended ? " closed its control connection without a goodbye"
                                 : "'s control connection broke: " + status.sentence()),
                  rank_));
      return;
    }
    uint32_t length;
    std::memcpy(&length, header_.data(), sizeof(length));
    if (length == kLastFrame) {
      end(Status(Code::kShutDown, peer_ + " has ended its side of the control connection", rank_));
    } else if (length > kMaxFrameBytes) {
      fail(Status(Code::kPeerLost,
                  peer_ + " sent a control frame of " + std::to_string(length) + " bytes, the limit is " +
                      std::to_string(kMaxFrameBytes),
                  rank_));
    } else if (length == 0) {
      read_header();
    } else {
      body_.resize(length);
      read_body();
    }
  });
}

void ControlConnection::read_body() {
  stream_->read(body_, [this](const Status& status, size_t) {
    if (!status.ok()) {
      fail(Status(Code::kPeerLost, peer_ + "'s control connection broke inside a frame: " + status.sentence(), rank_));
      return;
    }
    {
      MutexLock lock(mutex_);
      incoming_.push_back(std::exchange(body_, {}));
    }
    frames_waiting_.fetch_add(1, std::memory_order_release);
    read_header();
  });
}

std::optional<Frame> ControlConnection::receive() {
  if (!readable()) return std::nullopt;
  MutexLock lock(mutex_);
  if (incoming_.empty()) return std::nullopt;
  std::optional<Frame> frame = std::move(incoming_.front());
  incoming_.pop_front();
  frames_waiting_.fetch_sub(1, std::memory_order_release);
  return frame;
}

Status ControlConnection::status() const {
  MutexLock lock(mutex_);
  return status_;
}

void ControlConnection::fail(const Status& status) {
  broken_.store(true);
  end(status);
}

void ControlConnection::end(const Status& status) {
  MutexLock lock(mutex_);
  if (status_.ok()) status_ = status;
}

}  // namespace rueda::core
