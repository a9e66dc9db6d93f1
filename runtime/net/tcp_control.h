#pragma once
#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/net/control_link.h"
#include "runtime/net/secure_stream.h"

namespace rueda::core {

/// One control connection: frames both ways over a stream.
///
///   | u32 length, little-endian | bytes |   ...   | u32 0xffffffff |   the last one: no more frames from this side
///
/// Two threads use it. The coordinator thread owns the stream: `start`, `stop` and all I/O inside its loop. The holder
/// of the baton calls the rest: it puts frames into a queue for the loop and takes received ones from another queue.
class ControlConnection : public std::enable_shared_from_this<ControlConnection> {
 public:
  /// `peer` is the other rank's name in sentences.
  ControlConnection(boost::asio::io_context& io, std::unique_ptr<SecureStream> stream, std::string peer, int rank);
  /// Begins to read. Coordinator thread.
  void start();
  /// Closes the stream; bytes that have left are still delivered. Coordinator thread.
  void stop();

  void send(std::span<const std::byte> frame) RUEDA_EXCLUDES(mutex_);
  void close_send() RUEDA_EXCLUDES(mutex_);
  std::optional<Frame> receive() RUEDA_EXCLUDES(mutex_);
  bool readable() const { return frames_waiting_.load(std::memory_order_acquire) != 0; }
  /// Returns true if every byte has left, or if none can leave any more.
  bool all_sent() const { return broken_.load() || bytes_unsent_.load(std::memory_order_acquire) == 0; }
  Status status() const RUEDA_EXCLUDES(mutex_);

 private:
  void queue(uint32_t header, std::span<const std::byte> frame) RUEDA_EXCLUDES(mutex_);
  void write_next() RUEDA_EXCLUDES(mutex_);
  void read_header() RUEDA_EXCLUDES(mutex_);
  void read_body() RUEDA_EXCLUDES(mutex_);
  /// Ends both directions of a stream that is broken.
  void fail(const Status& status) RUEDA_EXCLUDES(mutex_);
  /// Records why no more frames come; the first reason stays.
  void end(const Status& status) RUEDA_EXCLUDES(mutex_);

  boost::asio::io_context& io_;
  const std::string peer_;
  const int rank_;

  // Coordinator thread only.
  std::unique_ptr<SecureStream> stream_;
  std::vector<std::byte> leaving_;
  bool writing_ = false;
  std::array<std::byte, 4> header_{};
  Frame body_;

  mutable Mutex mutex_;
  std::vector<std::byte> outgoing_ RUEDA_GUARDED_BY(mutex_);
  std::deque<Frame> incoming_ RUEDA_GUARDED_BY(mutex_);
  Status status_ RUEDA_GUARDED_BY(mutex_);
  bool send_closed_ RUEDA_GUARDED_BY(mutex_) = false;
  std::atomic<bool> broken_{false};
  std::atomic<size_t> frames_waiting_{0};
  std::atomic<size_t> bytes_unsent_{0};
};

/// The end of a `ControlConnection` that the holder of the baton uses.
class TcpControlLink : public ControlLink {
 public:
  explicit TcpControlLink(std::shared_ptr<ControlConnection> connection) : connection_(std::move(connection)) {}
  /// Every frame leaves at once: this side cannot see what the peer expects.
  void send(std::span<const std::byte> frame, Urgency) override { connection_->send(frame); }
  bool flush() override { return connection_->all_sent(); }
  std::optional<Frame> receive() override { return connection_->receive(); }
  bool readable() const override { return connection_->readable(); }
  Status status() const override { return connection_->status(); }
  void close_send() override { connection_->close_send(); }

 private:
  std::shared_ptr<ControlConnection> connection_;
};

}  // namespace rueda::core
