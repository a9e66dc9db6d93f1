#include "runtime/net/http_page.h"

#include <poll.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <optional>

#include "tests/support/no_descriptors.h"

namespace rueda::core {
namespace {

using boost::asio::ip::tcp;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

/// A page and one visitor that writes what it likes.
class Visitor {
 public:
  Visitor() { socket_.connect({boost::asio::ip::address_v4::loopback(), page_->port()}); }

  /// In pieces that leave one by one. Stops where the page has closed the connection.
  void write(std::string_view text, size_t piece) {
    socket_.set_option(tcp::no_delay(true));
    boost::system::error_code error;
    for (size_t at = 0; at < text.size() && !error; at += piece) {
      boost::asio::write(socket_, boost::asio::buffer(text.substr(at, piece)), error);
    }
  }

  /// All that the page says until it closes the connection.
  std::string read() {
    std::string said;
    char piece[1000];
    boost::system::error_code error;
    while (const size_t bytes = socket_.read_some(boost::asio::buffer(piece), error)) said.append(piece, bytes);
    return said;
  }

 private:
  std::unique_ptr<HttpPage> page_ = HttpPage::start("127.0.0.1", 0, [] { return std::string("the page\n"); }).value();
  boost::asio::io_context io_;
  tcp::socket socket_{io_};
};

}  // namespace

TEST_CASE("a page answers a request however it comes in pieces, with a body or without") {
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{1000}}) {
    for (const std::string body : {"\r\n", "Content-Length: 5\r\n\r\nhello"}) {
      CAPTURE(piece, body);
      Visitor visitor;
      visitor.write("GET /metrics HTTP/1.1\r\nHost: a\r\n" + body, piece);
      const std::string said = visitor.read();
      CHECK_THAT(said, StartsWith("HTTP/1.1 200 OK\r\n"));
      CHECK_THAT(said, Contains("Content-Length: 9\r\n") && Catch::Matchers::EndsWith("\r\n\r\nthe page\n"));
    }
  }
}

TEST_CASE("a page without a descriptor for a visitor rests, and answers once there is one") {
  const auto page = HttpPage::start("127.0.0.1", 0, [] { return std::string("the page\n"); }).value();
  boost::asio::io_context io;
  tcp::socket visitor(io);
  visitor.open(tcp::v4());
  std::optional<test::NoDescriptors> none(std::in_place);
  visitor.connect({boost::asio::ip::address_v4::loopback(), page->port()});
  boost::asio::write(visitor, boost::asio::buffer(std::string_view("GET /metrics HTTP/1.1\r\n\r\n")));
  // Nothing comes in this time; a page that tried again at once would take all of it from a core.
  const auto begin = test::cpu_time();
  pollfd answer{visitor.native_handle(), POLLIN, 0};
  CHECK(poll(&answer, 1, 500) == 0);
  CHECK(test::cpu_time() - begin < std::chrono::milliseconds(100));
  none.reset();
  CHECK(poll(&answer, 1, 60'000) == 1);
}

TEST_CASE("what is not on the page is not found") {
  for (const char* line : {"GET / HTTP/1.1", "POST /metrics HTTP/1.1", "GET /metrics/ HTTP/1.0"}) {
    Visitor visitor;
    visitor.write(line + std::string("\r\nHost: a\r\n\r\n"), 1000);
    CHECK_THAT(visitor.read(), StartsWith("HTTP/1.1 404 Not Found\r\n"));
  }
}

TEST_CASE("a request that is none or does not end is not answered, and its memory is bounded") {
  const std::string get = "GET /metrics HTTP/1.1\r\nHost: a\r\n";
  std::string lines;
  for (int i = 0; i < 2000; ++i) lines += "X-Line: " + std::string(20, 'a') + "\r\n";
  for (const std::string& request : {std::string("nonsense\r\n\r\n"), get + "X: " + std::string(100'000, 'a'),
                                     get + lines, get + "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
                                     get + "Transfer-Encoding: chunked\r\n\r\n5;" + std::string(100'000, 'a'),
                                     get + "Transfer-Encoding: chunked\r\n\r\n0\r\nX: " + std::string(100'000, 'a'),
                                     get + "Content-Length: 100000\r\n\r\n" + std::string(100'000, 'a')}) {
    CAPTURE(request.substr(0, 90));
    Visitor visitor;
    visitor.write(request, 1000);
    CHECK(visitor.read().empty());
  }
}

}  // namespace rueda::core
