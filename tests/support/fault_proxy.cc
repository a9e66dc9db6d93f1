// A TCP proxy that cuts one connection at an exact byte. Each connection is a `Conduit` of two ways:
//
//   dialler ── read ─▶ buffer ── write ─▶ listener        up
//   dialler ◀─ write ── buffer ◀── read ── listener       down
//
// A way reads again only after its write is done, so the count of passed bytes is exact and a cut hides no byte on the
// way.
#include "tests/support/fault_proxy.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <set>
#include <thread>

#include "runtime/base/mutex.h"

namespace rueda::test {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

class Conduit;

/// What conduits share. Belongs to the proxy's thread, but for what is atomic or guarded.
struct Desk {
  explicit Desk(const FaultProxy::Options& options) : first(options.first), cut(options.cut), target(options.target) {}

  /// Whether a connection that begins so is the one to watch; asked once for each connection.
  bool takes(char byte) {
    if (taken || (first && *first != byte)) return false;
    return taken = true;
  }
  void record(Flow flow, const char* bytes, size_t count) {
    const core::MutexLock lock(mutex);
    records[flow == Flow::kUp ? 0 : 1].append(bytes, count);
  }

  const std::optional<char> first;
  const std::optional<Cut> cut;
  std::atomic<uint16_t> target;
  std::atomic<bool> has_cut{false};
  bool taken = false;
  mutable core::Mutex mutex;
  std::array<std::string, 2> records RUEDA_GUARDED_BY(mutex);
  std::set<std::shared_ptr<Conduit>> conduits;
};

/// One connection through the proxy: two sockets, and a buffer each way.
class Conduit : public std::enable_shared_from_this<Conduit> {
 public:
  Conduit(Desk& desk, tcp::socket dialler, tcp::socket listener)
      : desk_(desk), dialler_(std::move(dialler)), listener_(std::move(listener)) {}

  void start() {
    error_code ignored;
    for (tcp::socket* socket : {&dialler_, &listener_}) socket->set_option(tcp::no_delay(true), ignored);
    pump(up_);
    pump(down_);
  }
  void reset() {
    error_code ignored;
    for (tcp::socket* socket : {&dialler_, &listener_}) {
      socket->set_option(asio::socket_base::linger(true, 0), ignored);
      socket->close(ignored);
    }
    desk_.conduits.erase(shared_from_this());
  }

 private:
  struct Way {
    Flow flow;
    tcp::socket& from;
    tcp::socket& to;
    size_t gone = 0;
    bool drained = false;  ///< what comes is thrown away: the reader has been told that this was the end
    bool over = false;     ///< the sender has ended it
    std::array<char, 4096> buffer{};
  };

  void pump(Way& way) {
    way.from.async_read_some(asio::buffer(way.buffer),
                             [this, self = shared_from_this(), &way](error_code error, size_t count) {
                               if (error == asio::error::operation_aborted) return;
                               if (error == asio::error::eof) return end(way);
                               if (error) return reset();
                               if (way.flow == Flow::kUp && !asked_) ask(way.buffer[0]);
                               if (dialler_.is_open()) pass(way, count);
                             });
  }

  void ask(char first) {
    asked_ = true;
    watched_ = desk_.takes(first);
    if (watched_ && desk_.cut && desk_.cut->after_bytes == 0) cut();
  }

  /// How many of `count` bytes are still before the cut.
  size_t before_cut(const Way& way, size_t count) const {
    if (!watched_ || !desk_.cut || desk_.cut->flow != way.flow) return count;
    return std::min(count, desk_.cut->after_bytes - way.gone);
  }

  void pass(Way& way, size_t count) {
    if (way.drained) return pump(way);
    const size_t some = before_cut(way, count);
    if (watched_) desk_.record(way.flow, way.buffer.data(), some);
    asio::async_write(way.to, asio::buffer(way.buffer.data(), some),
                      [this, self = shared_from_this(), &way, some](error_code error, size_t) {
                        if (error == asio::error::operation_aborted) return;
                        if (error) return reset();
                        way.gone += some;
                        const bool here = watched_ && desk_.cut && desk_.cut->flow == way.flow;
                        if (here && !way.drained && way.gone == desk_.cut->after_bytes) cut();
                        if (dialler_.is_open()) pump(way);
                      });
  }

  void cut() {
    desk_.has_cut.store(true);
    if (desk_.cut->kind == CutKind::kReset) return reset();
    for (Way* way : {&up_, &down_}) {
      if (desk_.cut->kind == CutKind::kHalf && way->flow != desk_.cut->flow) continue;
      error_code ignored;
      way->drained = true;
      way->to.shutdown(tcp::socket::shutdown_send, ignored);
    }
  }

  void end(Way& way) {
    error_code ignored;
    way.over = true;
    if (!way.drained) way.to.shutdown(tcp::socket::shutdown_send, ignored);
    if (!up_.over || !down_.over) return;
    dialler_.close(ignored);
    listener_.close(ignored);
    desk_.conduits.erase(shared_from_this());
  }

  Desk& desk_;
  tcp::socket dialler_;
  tcp::socket listener_;
  Way up_{Flow::kUp, dialler_, listener_};
  Way down_{Flow::kDown, listener_, dialler_};
  bool asked_ = false;
  bool watched_ = false;
};

}  // namespace

struct FaultProxy::State {
  explicit State(const Options& options)
      : desk(options), acceptor(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {
    accept();
    thread = std::thread([this] { io.run(); });
  }

  void accept() {
    acceptor.async_accept([this](error_code error, tcp::socket dialler) {
      if (error) return;
      tcp::socket listener(io);
      listener.connect({asio::ip::address_v4::loopback(), desk.target.load()}, error);
      const auto conduit = std::make_shared<Conduit>(desk, std::move(dialler), std::move(listener));
      desk.conduits.insert(conduit);
      error ? conduit->reset() : conduit->start();
      accept();
    });
  }

  asio::io_context io{1};
  Desk desk;
  tcp::acceptor acceptor;
  std::thread thread;
};

FaultProxy::FaultProxy(const Options& options) : state_(std::make_unique<State>(options)) {}

FaultProxy::~FaultProxy() {
  asio::post(state_->io, [state = state_.get()] {
    error_code ignored;
    state->acceptor.close(ignored);
    const auto conduits = state->desk.conduits;
    for (const auto& conduit : conduits) conduit->reset();
  });
  state_->thread.join();
}

uint16_t FaultProxy::port() const { return state_->acceptor.local_endpoint().port(); }
void FaultProxy::lead_to(uint16_t target) { state_->desk.target.store(target); }
bool FaultProxy::has_cut() const { return state_->desk.has_cut.load(); }

std::string FaultProxy::recorded(Flow flow) const {
  const core::MutexLock lock(state_->desk.mutex);
  return state_->desk.records[flow == Flow::kUp ? 0 : 1];
}

}  // namespace rueda::test
