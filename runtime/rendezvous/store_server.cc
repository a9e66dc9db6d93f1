#include "runtime/rendezvous/store_server.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <future>
#include <list>
#include <map>
#include <system_error>
#include <thread>

#include "runtime/base/log.h"
#include "runtime/rendezvous/resolve.h"
#include "runtime/rendezvous/store_session.h"

namespace rueda::core {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

/// The kernel chooses a port for the first address; it may be taken on another one.
constexpr int kListenTries = 16;

/// On the first address of the name that this machine has.
Result<UniqueFd> listen_at(const std::string& name, uint16_t port) {
  const auto addresses = resolve(name, port);
  if (!addresses.ok()) return Status(Code::kInvalidArgument, "store: " + addresses.status().sentence());
  Status last;
  for (const SocketAddress& address : addresses.value()) {
    auto socket = listen_on(address);
    if (socket.ok()) return socket;
    last = socket.status();
  }
  return last;
}

Result<int> family_of(int fd) {
  int family = AF_INET;
  socklen_t bytes = sizeof(family);
  if (::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &bytes) == 0) return family;
  return Status(Code::kSystem, "store: getsockopt: " + std::generic_category().message(errno));
}

}  // namespace

/// Everything but `options`, `tls`, `port` and `io.post` belongs to the server's thread.
struct StoreServer::State {
  StoreServerOptions options;
  std::shared_ptr<TlsContext> tls;
  uint16_t port = 0;
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard{io.get_executor()};
  KeyTable table;
  struct Port {
    explicit Port(asio::io_context& io) : acceptor(io), pause(io) {}
    tcp::acceptor acceptor;
    asio::steady_timer pause;  ///< after an accept failed for want of descriptors
  };
  std::list<Port> ports;
  uint64_t next_session = 0;
  std::map<uint64_t, std::shared_ptr<StoreSession>> sessions;  ///< by age
  std::thread thread;

  Status listen();
  Result<std::vector<UniqueFd>> listen_once();
  void accept(Port& port);
  void adopt(UniqueFd socket);
  void drop_oldest_unproven();
  void run();

  /// Runs `work` on the server's thread and returns what it returns.
  template <typename Work>
  auto on_thread(Work work) {
    std::packaged_task<std::invoke_result_t<Work>()> task(std::move(work));
    auto result = task.get_future();
    asio::post(io, std::move(task));
    return result.get();
  }
};

/// On all addresses, with the port that the first of them got.
Result<std::vector<UniqueFd>> StoreServer::State::listen_once() {
  std::vector<UniqueFd> sockets;
  port = options.port;
  for (const std::string& name : options.addresses) {
    auto socket = listen_at(name, port);
    if (!socket.ok()) return socket.status();
    sockets.push_back(std::move(socket).value());
    const auto bound = bound_port(sockets.back().get());
    if (!bound.ok()) return bound.status();
    port = bound.value();
  }
  return sockets;
}

Status StoreServer::State::listen() {
  auto sockets = listen_once();
  const int tries = options.port == 0 && options.addresses.size() > 1 ? kListenTries : 1;
  for (int attempt = 1; !sockets.ok() && attempt < tries; ++attempt) sockets = listen_once();
  if (!sockets.ok()) return sockets.status();
  for (UniqueFd& socket : sockets.value()) {
    const auto family = family_of(socket.get());
    if (!family.ok()) return family.status();
    boost::system::error_code error;
    Port& made = ports.emplace_back(io);
    made.acceptor.assign(family.value() == AF_INET6 ? tcp::v6() : tcp::v4(), socket.get(), error);
    if (error) return {Code::kSystem, "store: cannot accept on port " + std::to_string(port) + ": " + error.message()};
    close_in_child(socket.release());
  }
  return {};
}

void StoreServer::State::accept(Port& from) {
  from.acceptor.async_accept([this, &from](const boost::system::error_code& error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (!error) {
      boost::system::error_code refused;
      const int fd = socket.release(refused);
      if (!refused) adopt(UniqueFd(fd));
      return accept(from);
    }
    log(LogLevel::kWarning, "store: accept on port {} failed: {}; trying again in 100 ms", port, error.message());
    from.pause.expires_after(std::chrono::milliseconds(100));
    from.pause.async_wait([this, &from](const boost::system::error_code& stopped) {
      if (!stopped) accept(from);
    });
  });
}

void StoreServer::State::adopt(UniqueFd socket) {
  if (sessions.size() >= options.max_sessions) return;
  drop_oldest_unproven();
  set_no_delay(socket.get());
  const uint64_t number = next_session++;
  // Without a key there is nothing to prove, and a client that is dropped does not dial again.
  const auto proof = options.key.present ? options.proof : options.silence;
  const auto ended = [this, number] { asio::post(io, [this, number] { sessions.erase(number); }); };
  auto session = std::make_shared<StoreSession>(io, std::move(socket), tls, table,
                                                StoreSession::Rules{proof, options.silence, options.end_key}, ended);
  sessions.emplace(number, session);
  session->start();
}

void StoreServer::State::drop_oldest_unproven() {
  size_t unproven = 0;
  auto oldest = sessions.end();
  for (auto it = sessions.begin(); it != sessions.end(); ++it) {
    if (it->second->proven()) continue;
    if (unproven++ == 0) oldest = it;
  }
  if (unproven >= options.max_unproven) sessions.erase(oldest);
}

void StoreServer::State::run() {
  for (;;) {
    try {
      io.run();
      return;
    } catch (const std::exception& error) {
      log(LogLevel::kError, "store: {}", error.what());
    }
  }
}

StoreServer::StoreServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<StoreServer>> StoreServer::start(const StoreServerOptions& options) try {
  auto state = std::make_unique<State>();
  state->options = options;
  if (options.key.present) {
    auto tls = TlsContext::create(options.job, options.key.bytes);
    if (!tls.ok()) return tls.status();
    state->tls = std::move(tls).value();
  }
  RUEDA_RETURN_IF_ERROR(state->listen());
  for (State::Port& port : state->ports) state->accept(port);
  state->thread = std::thread([raw = state.get()] { raw->run(); });
  return std::unique_ptr<StoreServer>(new StoreServer(std::move(state)));
} catch (const std::exception& error) {
  return Status(Code::kSystem, std::string("store: cannot serve: ") + error.what());
}

StoreServer::~StoreServer() {
  asio::post(state_->io, [state = state_.get()] {
    boost::system::error_code ignored;
    for (State::Port& port : state->ports) {
      keep_in_child(port.acceptor.native_handle());
      port.acceptor.close(ignored);
    }
    state->sessions.clear();
    state->io.stop();
  });
  state_->thread.join();
}

uint16_t StoreServer::port() const { return state_->port; }

Status StoreServer::set(std::string_view key, std::string_view value) {
  return state_->on_thread([this, key, value] { return state_->table.set(key, value); });
}

Result<int64_t> StoreServer::add(std::string_view key, int64_t amount) {
  return state_->on_thread([this, key, amount] { return state_->table.add(key, amount); });
}

Result<std::string> StoreServer::get(std::string_view key, Deadline deadline) {
  auto arrived = std::make_shared<std::promise<std::string>>();
  auto value = arrived->get_future();
  const uint64_t waiter = state_->on_thread([this, key, arrived]() -> uint64_t {
    const std::string* held = state_->table.find(key);
    if (held == nullptr) return state_->table.wait(key, [arrived](const std::string& set) { arrived->set_value(set); });
    arrived->set_value(*held);
    return 0;
  });
  if (deadline.is_never() || value.wait_until(deadline.when()) == std::future_status::ready) return value.get();
  state_->on_thread([this, waiter] { state_->table.cancel(waiter); });
  if (value.wait_for(std::chrono::seconds(0)) == std::future_status::ready) return value.get();
  return Status(Code::kTimeout, "store: nobody set \"" + std::string(key) + "\" before the deadline");
}

void StoreServer::when_set(std::string_view key, std::function<void()> call) {
  state_->on_thread([this, key, call = std::move(call)] {
    if (state_->table.find(key) != nullptr) return call();
    state_->table.wait(key, [call](const std::string&) { call(); });
  });
}

}  // namespace rueda::core
