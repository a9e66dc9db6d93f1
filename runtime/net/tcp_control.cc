// A control connection between two threads: the holder of the baton, which sends and takes frames, and the coordinator
// thread, which owns the stream.
//
//   send ──▶ outgoing_ ──post──▶ write_next: takes all of it, writes, again until it is empty
//   receive ◀── incoming_ ◀── read_body ◀── read_header ◀── the stream, always reading
//
// `end` keeps the first reason only: a goodbye that came before the connection broke is the better explanation.
#include "runtime/net/tcp_control.h"

#include <algorithm>
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

void ControlConnection::send(std::span<const std::byte> frame) {
  if (!frame.empty()) queue(static_cast<uint32_t>(frame.size()), frame);
}

void ControlConnection::close_send() { queue(kLastFrame, {}); }

void ControlConnection::queue(uint32_t header, std::span<const std::byte> frame) {
  {
    MutexLock lock(mutex_);
    if (send_closed_ || broken_.load()) return;  // `status` tells the caller
    if (frame.size() > kMaxFrameBytes) {
      // A frame left out would be a gap that the peer cannot see, so none may follow it.
      send_closed_ = true;
      status_ = refused_frame(peer_, rank_, frame.size());
      return;
    }
    // All of it or nothing: behind half a frame the next one would be read as its rest.
    const size_t bytes_then = outgoing_.size() + sizeof(header) + frame.size();
    if (bytes_then > outgoing_.capacity()) outgoing_.reserve(std::max(bytes_then, 2 * outgoing_.capacity()));
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
  // `leaving_` is the stream's until the callback; what is sent meanwhile gathers in `outgoing_` and leaves as one
  // write.
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
      end(ended_by_peer(peer_, rank_));
    } else if (length > kMaxFrameBytes) {
      fail(oversized_frame(peer_, rank_, length));
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
  if (!readable()) return std::nullopt;  // without a lock: every turn asks every link
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
