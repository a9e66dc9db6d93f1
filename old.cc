// Beast parses. Its own limits leave out some of what a client may send, for example the lines behind a chunked body,
// so all bytes together have a limit too. What Beast has not parsed yet is kept and shown to it again with the next
// piece.
#include "runtime/net/http_request.h"

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <string>

namespace rueda::core {
namespace {

namespace http = boost::beast::http;

constexpr size_t kMostHeaderBytes = 8192;
constexpr size_t kMostRequestBytes = 2 * kMostHeaderBytes;

}  // namespace

struct HttpRequest::Parser {
  Parser() {
    beast.body_limit(kMostHeaderBytes);
    beast.header_limit(kMostHeaderBytes);
    beast.eager(true);
  }
  size_t received = 0;
  std::string unparsed;
  http::request_parser<http::string_body> beast;
};

HttpRequest::HttpRequest() : parser_(std::make_unique<Parser>()) {}

HttpRequest::~HttpRequest() = default;

HttpRequest::State HttpRequest::take(std::string_view piece) {
  if ((parser_->received += piece.size()) > kMostRequestBytes) return State::kRefused;
  parser_->unparsed.append(piece);
  boost::beast::error_code error;
  const size_t parsed = parser_->beast.put(boost::asio::buffer(parser_->unparsed), error);
  if (error && error != http::error::need_more) return State::kRefused;
  parser_->unparsed.erase(0, parsed);
  return parser_->beast.is_done() ? State::kWhole : State::kUnfinished;
}

bool HttpRequest::gets(std::string_view target) const {
  const auto& request = parser_->beast.get();
  return request.method() == http::verb::get &&
         std::string_view(request.target().data(), request.target().size()) == target;
}

}  // namespace rueda::core
