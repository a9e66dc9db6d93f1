#pragma once
#include <memory>
#include <string_view>

namespace rueda::core {

/// One HTTP/1.1 request (RFC 9112), read from the pieces in which it comes. Takes at most 16 KiB: 8 KiB of header, and
/// a body of 8 KiB that nobody reads. Does no I/O; one thread at a time.
class HttpRequest {
 public:
  enum class State {
    kUnfinished,  ///< more must come
    kWhole,
    kRefused  ///< not a request, too long, or with a chunked body
  };
  HttpRequest();
  ~HttpRequest();
  HttpRequest(const HttpRequest&) = delete;
  HttpRequest& operator=(const HttpRequest&) = delete;

  /// Takes the next bytes, while the state is kUnfinished. Passes over what comes behind the request in the same piece.
  State take(std::string_view piece);
  /// Returns whether the request is a GET of this target. The state is kWhole.
  bool gets(std::string_view target) const;

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace rueda::core
