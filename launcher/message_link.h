#pragma once
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "launcher/event_loop.h"
#include "launcher/messages.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core::launcher {

/// Carries messages over a pair of descriptors, which it owns and makes non-blocking. Belongs to the loop's thread.
class MessageLink {
 public:
  struct Events {
    std::function<void(Message)> message;
    /// Called once; no message follows it. kPeerLost at the end of the file: what is sent still leaves if the other end
    /// takes it. kSystem if reading failed or the bytes are no message: nothing leaves any more.
    std::function<void(const Status&)> closed;
  };

  /// `in` and `out` may be two descriptors of one socket.
  MessageLink(EventLoop& loop, UniqueFd in, UniqueFd out, MessageReader::Greeting greeting, Events events);
  MessageLink(const MessageLink&) = delete;
  MessageLink& operator=(const MessageLink&) = delete;

  /// Queues the message, which leaves as soon as the other end takes it. Drops it if the other end takes no more.
  void send(const Message& message) { send_bytes(encode(message)); }
  void send_bytes(std::vector<std::byte> bytes);
  /// As MessageReader::ungreeted.
  std::string ungreeted() const { return reader_.ungreeted(); }
  /// Calls back once every queued message has left or was dropped.
  void when_sent(std::function<void()> sent);

 private:
  void read();
  void deliver();
  void write();
  void fall_silent();
  void close(const Status& why);

  EventLoop& loop_;
  UniqueFd in_;
  UniqueFd out_;
  MessageReader reader_;
  Events events_;
  FdWatch readable_;
  FdWatch writable_;
  std::deque<std::vector<std::byte>> queue_;
  size_t written_ = 0;  // bytes of the queue's first message that have left
  bool writing_ = false;
  bool closed_ = false;  // no more is read
  bool mute_ = false;    // no more is written
  std::function<void()> sent_;
};

}  // namespace rueda::core::launcher
