// A server for one page, on a thread and an event loop of its own, so that a scraper can neither hold up nor be held up
// by the engine. Each connection is a `Visit`: read pieces until they are a whole request, answer, half-close. A
// timer over all of it, a limit on bytes and a limit on connections bound what a client that misbehaves can take. An
// accept that fails leaves the connection in the kernel's queue, so the next one waits a moment.
#include "runtime/net/http_page.h"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <sstream>
#include <thread>

#include "runtime/base/shortage.h"
#include "runtime/base/thread.h"
#include "runtime/net/http_request.h"
#include "runtime/net/loop_wait.h"

namespace rueda::core {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

constexpr int kMostConnections = 16;
constexpr std::chrono::seconds kRequestTime{5};
constexpr std::chrono::milliseconds kPageAcceptPause{100};
constexpr const char* kTextFormat = "text/plain; version=0.0.4; charset=utf-8";

/// One request and its answer. Its pending callbacks keep it alive. Beast formats; Asio moves the bytes,
/// because Beast's own operations would take a tenth of this library's compile time.
class Visit : public std::enable_shared_from_this<Visit> {
 public:
  Visit(asio::ip::tcp::socket socket, const std::function<std::string()>& page, int& open)
      : socket_(std::move(socket)), deadline_(socket_.get_executor()), page_(page), open_(open) {
    ++open_;
  }
  ~Visit() { --open_; }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  void run() {
    deadline_.expires_after(kRequestTime);
    deadline_.async_wait([self = shared_from_this()](beast::error_code error) {
      beast::error_code ignored;
      if (!error) self->socket_.close(ignored);
    });
    read();
  }

 private:
  void read() {
    socket_.async_read_some(asio::buffer(piece_), [self = shared_from_this()](beast::error_code error, size_t bytes) {
      if (error || !self->take(bytes)) self->deadline_.cancel();
    });
  }

  // Returns false if this is not a request; the connection then ends.
  bool take(size_t bytes) {
    const HttpRequest::State state = request_.take({piece_.data(), bytes});
    if (state == HttpRequest::State::kRefused) return false;
    state == HttpRequest::State::kWhole ? answer() : read();
    return true;
  }

  void answer() {
    const bool known = request_.gets("/metrics");
    http::response<http::string_body> response(known ? http::status::ok : http::status::not_found, 11);
    response.set(http::field::content_type, kTextFormat);
    response.body() = known ? page_() : "GET /metrics is all there is\n";
    response.keep_alive(false);
    response.prepare_payload();
    std::ostringstream text;
    text << response;
    answer_ = std::move(text).str();
    asio::async_write(socket_, asio::buffer(answer_), [self = shared_from_this()](beast::error_code, size_t) {
      beast::error_code ignored;
      // A close with unread bytes would reset the connection and lose the answer.
      self->socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
      self->deadline_.cancel();
    });
  }

  asio::ip::tcp::socket socket_;
  asio::steady_timer deadline_;
  const std::function<std::string()>& page_;
  int& open_;
  std::array<char, 4096> piece_{};
  HttpRequest request_;
  std::string answer_;
};

}  // namespace

struct HttpPage::State {
  explicit State(std::function<std::string()> given) : page(std::move(given)) {}
  const std::function<std::string()> page;
  int open = 0;  ///< connections; before the context, whose callbacks count down when it goes
  asio::io_context context;
  asio::ip::tcp::acceptor acceptor{context};
  asio::steady_timer pause{context};
  std::thread thread;

  void accept() {
    acceptor.async_accept([this](beast::error_code error, asio::ip::tcp::socket socket) {
      if (!acceptor.is_open()) return;
      if (error) return accept_later();
      accept();  // before anything that may throw
      if (open < kMostConnections) std::make_shared<Visit>(std::move(socket), page, open)->run();
    });
  }

  void accept_later() {
    pause.expires_after(kPageAcceptPause);
    pause.async_wait([this](beast::error_code stopped) {
      if (!stopped) accept();
    });
  }
};

HttpPage::HttpPage(std::unique_ptr<State> state) : state_(std::move(state)) {}

HttpPage::~HttpPage() {
  state_->context.stop();
  if (state_->thread.joinable()) state_->thread.join();
}

uint16_t HttpPage::port() const { return state_->acceptor.local_endpoint().port(); }

Result<std::unique_ptr<HttpPage>> HttpPage::start(const std::string& address, uint16_t port,
                                                  std::function<std::string()> page) try {
  auto state = std::make_unique<State>(std::move(page));
  beast::error_code error;
  const asio::ip::address where = asio::ip::make_address(address, error);
  if (error)
    return Status(Code::kInvalidArgument, fmt::format("\"{}\" is not a numeric address to listen on", address));
  const asio::ip::tcp::endpoint endpoint(where, port);
  state->acceptor.open(endpoint.protocol(), error);
  if (!error) state->acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) state->acceptor.bind(endpoint, error);
  if (!error) state->acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return Status(Code::kSystem, fmt::format("cannot listen on {} port {}: {}", address, port, error.message()));
  }
  state->accept();
  RUEDA_RETURN_IF_ERROR(
      start_thread(state->thread, "of the metrics page", [raw = state.get()] { run_loop(raw->context, "metrics"); }));
  return std::unique_ptr<HttpPage>(new HttpPage(std::move(state)));
} catch (const std::exception& error) {
  return Status(Code::kSystem, reason_of(error));
}

}  // namespace rueda::core
