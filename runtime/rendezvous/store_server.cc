#include "runtime/rendezvous/store_server.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <map>
#include <thread>

#include "runtime/base/log.h"
#include "runtime/rendezvous/resolve.h"
#include "runtime/rendezvous/store_session.h"

namespace rueda::core {

namespace asio = boost::asio;
using asio::ip::tcp;

/// Everything but `options`, `tls`, `port` and `io.post` belongs to the server's thread.
struct StoreServer::State {
  StoreServerOptions options;
  std::shared_ptr<TlsContext> tls;
  uint16_t port = 0;
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard{io.get_executor()};
  KeyTable table;
  tcp::acceptor acceptor{io};
  asio::steady_timer pause{io};  ///< after an accept failed for want of descriptors
  uint64_t next_session = 0;
  std::map<uint64_t, std::shared_ptr<StoreSession>> sessions;  ///< by age
  std::thread thread;

  Status listen();
  Status listen(const SocketAddress& address);
  void accept();
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

/// On the first address of the host that this machine has.
Status StoreServer::State::listen() {
  const auto addresses = resolve(options.address, options.port);
  if (!addresses.ok()) return {Code::kInvalidArgument, "store: " + addresses.status().sentence()};
  Status last;
  for (const SocketAddress& address : addresses.value()) {
    last = listen(address);
    if (last.ok()) break;
  }
  return last;
}

Status StoreServer::State::listen(const SocketAddress& address) {
  auto socket = listen_on(address);
  if (!socket.ok()) return socket.status();
  const auto bound = bound_port(socket.value().get());
  if (!bound.ok()) return bound.status();
  port = bound.value();
  boost::system::error_code error;
  acceptor.assign(address.family() == AF_INET6 ? tcp::v6() : tcp::v4(), socket.value().get(), error);
  if (error) return {Code::kSystem, "store: cannot accept on " + address.text() + ": " + error.message()};
  socket.value().release();
  return {};
}

void StoreServer::State::accept() {
  acceptor.async_accept([this](const boost::system::error_code& error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (!error) {
      boost::system::error_code refused;
      const int fd = socket.release(refused);
      if (!refused) adopt(UniqueFd(fd));
      return accept();
    }
    log(LogLevel::kWarning, "store: accept on port {} failed: {}; trying again in 100 ms", port, error.message());
    pause.expires_after(std::chrono::milliseconds(100));
    pause.async_wait([this](const boost::system::error_code& stopped) {
      if (!stopped) accept();
    });
  });
}

void StoreServer::State::adopt(UniqueFd socket) {
  if (sessions.size() >= options.max_sessions) return;
  drop_oldest_unproven();
  set_no_delay(socket.get());
  const uint64_t number = next_session++;
  const auto ended = [this, number] { asio::post(io, [this, number] { sessions.erase(number); }); };
  auto session = std::make_shared<StoreSession>(io, std::move(socket), tls, table, options.silence, ended);
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
  state->accept();
  state->thread = std::thread([raw = state.get()] { raw->run(); });
  return std::unique_ptr<StoreServer>(new StoreServer(std::move(state)));
} catch (const std::exception& error) {
  return Status(Code::kSystem, std::string("store: cannot serve: ") + error.what());
}

StoreServer::~StoreServer() {
  asio::post(state_->io, [state = state_.get()] {
    boost::system::error_code ignored;
    state->acceptor.close(ignored);
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
