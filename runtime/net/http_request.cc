// Beast parses. Its own limits leave out some of what a client may send, so all bytes together have a limit too. What
// Beast has not parsed yet is kept and shown to it again with the next piece. It does not get to see a chunked body:
// lines behind one that come in pieces can break an assertion of Beast's (seen in 1.81), which a release build does not
// check, and no client sends a body with a GET.
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
    beast.eager(false);  // so that it stops behind the header
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
  for (;;) {
    boost::beast::error_code error;
    const size_t parsed = parser_->beast.put(boost::asio::buffer(parser_->unparsed), error);
    if (error && error != http::error::need_more) return State::kRefused;
    parser_->unparsed.erase(0, parsed);
    if (parser_->beast.is_header_done() && parser_->beast.chunked()) return State::kRefused;
    if (parser_->beast.is_done()) return State::kWhole;
    if (error || parsed == 0 || parser_->unparsed.empty()) return State::kUnfinished;
  }
}

bool HttpRequest::gets(std::string_view target) const {
  const auto& request = parser_->beast.get();
  return request.method() == http::verb::get &&
         std::string_view(request.target().data(), request.target().size()) == target;
}

}  // namespace rueda::core
