#include "runtime/net/http_request.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

namespace rueda::core {
namespace {

using State = HttpRequest::State;

State take_in_pieces(HttpRequest& request, std::string_view text, size_t piece) {
  State state = State::kUnfinished;
  for (size_t at = 0; at < text.size() && state == State::kUnfinished; at += piece) {
    state = request.take(text.substr(at, piece));
  }
  return state;
}

State state_of(std::string_view text) {
  HttpRequest request;
  return request.take(text);
}

std::string with_body(size_t bytes) {
  return "POST /metrics HTTP/1.1\r\nContent-Length: " + std::to_string(bytes) + "\r\n\r\n" + std::string(bytes, 'b');
}

std::string with_header(size_t bytes) {
  const std::string begin = "GET /metrics HTTP/1.1\r\nX: ", end = "\r\n\r\n";
  return begin + std::string(bytes - begin.size() - end.size(), 'h') + end;
}

constexpr const char* kWhole = "GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";

}  // namespace

TEST_CASE("a request is whole with its last byte, in whatever pieces it comes") {
  const std::string_view text = kWhole;
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    CAPTURE(piece);
    HttpRequest shortened;
    CHECK(take_in_pieces(shortened, text.substr(0, text.size() - 1), piece) == State::kUnfinished);
    HttpRequest request;
    CHECK(take_in_pieces(request, text, piece) == State::kWhole);
    CHECK(request.gets("/metrics"));
  }
}

TEST_CASE("a request gets a target only by GET, and only that one") {
  HttpRequest get, longer, post;
  REQUIRE(get.take("GET /metrics HTTP/1.1\r\n\r\n") == State::kWhole);
  REQUIRE(longer.take("GET /metrics/1 HTTP/1.1\r\n\r\n") == State::kWhole);
  REQUIRE(post.take("POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n") == State::kWhole);
  CHECK(get.gets("/metrics"));
  CHECK_FALSE(get.gets("/metric"));
  CHECK_FALSE(longer.gets("/metrics"));
  CHECK_FALSE(post.gets("/metrics"));
}

TEST_CASE("what follows a request in the same piece does no harm") {
  HttpRequest request;
  REQUIRE(request.take(std::string(kWhole) + "GET /else HTTP/1.1\r\n\r\n") == State::kWhole);
  CHECK(request.gets("/metrics"));
}

TEST_CASE("bytes that are no request are refused") {
  CHECK(state_of("SSH-2.0-OpenSSH_9.2\r\n") == State::kRefused);
  CHECK(state_of(std::string(64, '\0')) == State::kRefused);
  CHECK(state_of("GET /metrics HTTP/1.1\r\nContent-Length: many\r\n\r\n") == State::kRefused);
}

TEST_CASE("a request has 8 KiB of header and 8 KiB of body at most") {
  CHECK(state_of(with_header(8192)) == State::kWhole);
  CHECK(state_of(with_header(8192 + 64)) == State::kRefused);  // the first line counts by itself
  CHECK(state_of(with_body(8192)) == State::kWhole);
  CHECK(state_of(with_body(8193)) == State::kRefused);
}

TEST_CASE("no more than 16 KiB of a request are read, what comes behind it included") {
  const std::string request = "GET /metrics HTTP/1.1\r\n\r\n";
  const std::string behind(16 * 1024 - request.size(), 'b');
  CHECK(state_of(request + behind) == State::kWhole);
  CHECK(state_of(request + behind + "b") == State::kRefused);
}

TEST_CASE("a request with a chunked body is refused with its header, and what follows is not parsed") {
  const std::string header = "GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  CHECK(state_of(header) == State::kRefused);
  CHECK(state_of(header + "2\r\nhi\r\n0\r\n\r\n") == State::kRefused);
  // Lines behind the last chunk. Byte by byte they break an assertion of Beast's.
  const std::string zeros(40, '\0');
  const std::string trailer = "0\r\nHt:000" + zeros + "00" + zeros;
  for (size_t piece = 1; piece <= trailer.size(); ++piece) {
    HttpRequest request;
    CHECK(take_in_pieces(request, header + trailer, piece) == State::kRefused);
  }
}

}  // namespace rueda::core
