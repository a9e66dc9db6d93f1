// Control links of every implementation, each with real machinery below: mapped segments and eventfds, two event loops
// over a socket pair, the delivering thread of a fabric. What differs between them is how a rank learns of news
// (`await`) and how a frame gets past the sender's check (`forge`); the suite sees nothing else.
#include "tests/support/control_link_pairs.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "runtime/base/unique_fd.h"
#include "runtime/net/fabric_control.h"
#include "runtime/net/shm_control_link.h"
#include "runtime/net/tcp_control.h"
#include "tests/support/memory_fabric.h"

namespace rueda::core {
namespace {

constexpr std::chrono::minutes kLongEnough{1};

std::string name_of(int rank) { return "rank " + std::to_string(rank); }

/// An eventfd on which one thread sleeps.
class Doorbell {
 public:
  int fd() const { return fd_.get(); }
  void ring() { ::eventfd_write(fd(), 1); }
  bool await() {
    pollfd watched{fd(), POLLIN, 0};
    const bool rung = ::poll(&watched, 1, static_cast<int>(std::chrono::milliseconds(kLongEnough).count())) == 1;
    clear();
    return rung;
  }
  void clear() {
    eventfd_t count = 0;
    ::eventfd_read(fd(), &count);
  }

 private:
  UniqueFd fd_{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
};

class ShmPair : public ControlLinkPair {
 public:
  explicit ShmPair(size_t ring_bytes) {
    for (const int rank : {0, 1}) segments_[rank] = Segment::create(layout_with_ring(ring_bytes), 1, rank).value();
    for (const int rank : {0, 1}) {
      const int peer = 1 - rank;
      links_[rank] = std::make_unique<ShmControlLink>(
          LocalPair{segments_[rank], segments_[peer], rank, peer, peer, bells_[peer].fd()});
    }
  }
  ControlLink& end(int rank) override { return *links_[rank]; }
  /// As the engine puts the baton down: a writer rings only a rank that says it is asleep.
  bool await(int rank) override {
    ControlWords& words = segments_[rank]->control();
    words.expecting.store(1);
    words.asleep.store(1);
    const bool rung = links_[rank]->readable() || bells_[rank].await();
    words.expecting.store(0);
    words.asleep.store(0);
    bells_[rank].clear();
    return rung;
  }
  void forge(uint32_t bytes) override {
    RingWriter forger(segments_[0], segments_[1], 0, 1);
    forger.append(std::as_bytes(std::span(&bytes, 1)));
  }

 private:
  static SegmentLayout layout_with_ring(size_t ring_bytes) {
    SegmentLayout layout;
    layout.local_size = 2;
    layout.rings = 2;
    layout.lanes = 1;
    layout.slots = 1;
    layout.slot_bytes = 4096;
    layout.ring_bytes = ring_bytes;
    return layout;
  }

  std::shared_ptr<Segment> segments_[2];
  Doorbell bells_[2];
  std::unique_ptr<ShmControlLink> links_[2];
};

/// One rank's connection with the coordinator thread that runs its loop.
class TcpEnd {
 public:
  TcpEnd(UniqueFd socket, int peer)
      : socket_(socket.get()),
        connection_(std::make_shared<ControlConnection>(
            io_, std::make_unique<SecureStream>(io_, std::move(socket), nullptr, StreamSide::kDialler), name_of(peer),
            peer)),
        link_(connection_) {
    boost::asio::post(io_, [this] { connection_->start(); });
    coordinator_ = std::thread([this] { run(); });
  }
  ~TcpEnd() {
    boost::asio::post(io_, [this] {
      connection_->stop();
      stopping_ = true;
    });
    coordinator_.join();
  }
  ControlLink& link() { return link_; }
  int socket() const { return socket_; }
  /// Every handler that has run is a reason to look.
  bool await() {
    std::unique_lock lock(mutex_);
    const bool more = handled_more_.wait_for(lock, kLongEnough, [this] { return handled_ != seen_; });
    seen_ = handled_;
    return more;
  }

 private:
  void run() {
    while (!stopping_) {
      io_.run_one();
      const std::lock_guard lock(mutex_);
      ++handled_;
      handled_more_.notify_all();
    }
  }

  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_{io_.get_executor()};
  int socket_;
  std::shared_ptr<ControlConnection> connection_;
  TcpControlLink link_;
  bool stopping_ = false;  // coordinator thread
  std::mutex mutex_;
  std::condition_variable handled_more_;
  uint64_t handled_ = 0;
  uint64_t seen_ = 0;
  std::thread coordinator_;
};

class TcpPair : public ControlLinkPair {
 public:
  TcpPair() {
    int fds[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0)
      throw std::runtime_error("no socket pair");
    for (const int rank : {0, 1}) ends_[rank] = std::make_unique<TcpEnd>(UniqueFd(fds[rank]), 1 - rank);
  }
  ControlLink& end(int rank) override { return ends_[rank]->link(); }
  bool await(int rank) override { return ends_[rank]->await(); }
  void forge(uint32_t bytes) override {
    if (::send(ends_[0]->socket(), &bytes, sizeof bytes, MSG_NOSIGNAL) != sizeof bytes)
      throw std::runtime_error("the socket takes no four bytes");
  }

 private:
  std::unique_ptr<TcpEnd> ends_[2];
};

class FabricPair : public ControlLinkPair {
 public:
  FabricPair() {
    for (const int rank : {0, 1}) {
      const int peer = 1 - rank;
      fabrics_[rank] = hub_.fabric(rank);
      auto inbox = std::make_shared<FabricInbox>(name_of(peer), peer, [&bell = bells_[rank]] { bell.ring(); });
      fabrics_[rank]->listen(FabricPort::kControl, [inbox](int, Frame frame) { inbox->put(std::move(frame)); });
      links_[rank] = std::make_unique<FabricControlLink>(fabrics_[rank], inbox, peer);
    }
  }
  ~FabricPair() override {
    for (const auto& fabric : fabrics_) fabric->stop_listening(FabricPort::kControl);
  }
  ControlLink& end(int rank) override { return *links_[rank]; }
  bool await(int rank) override { return bells_[rank].await(); }
  void forge(uint32_t bytes) override { fabrics_[0]->send(1, FabricPort::kControl, Frame(bytes)); }

 private:
  Doorbell bells_[2];
  FabricHub hub_{2};
  std::shared_ptr<Fabric> fabrics_[2];
  std::unique_ptr<FabricControlLink> links_[2];
};

}  // namespace

const std::vector<ControlLinkKind>& control_link_kinds() {
  static const std::vector<ControlLinkKind> kinds = {
      {"shared memory, 256 B ring",
       []() -> std::unique_ptr<ControlLinkPair> { return std::make_unique<ShmPair>(256); }},
      {"shared memory, 16 KiB ring",
       []() -> std::unique_ptr<ControlLinkPair> { return std::make_unique<ShmPair>(16 << 10); }},
      {"TCP", []() -> std::unique_ptr<ControlLinkPair> { return std::make_unique<TcpPair>(); }},
      {"fabric", []() -> std::unique_ptr<ControlLinkPair> { return std::make_unique<FabricPair>(); }},
  };
  return kinds;
}

}  // namespace rueda::core
