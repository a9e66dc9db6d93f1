#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/base/status.h"

namespace rueda::core {

/// One page over HTTP/1.1, for who scrapes figures: `GET /metrics` gets it, everything else 404. A thread of its own;
/// at most 16 connections at a time, each with one request of at most 16 KiB, its header 8, within 5 s. Made and
/// destroyed by its owner; the destructor waits for the thread.
class HttpPage {
 public:
  /// `address` is numeric; `port` 0: the system chooses. `page` is called on the server's thread for every request.
  /// kInvalidArgument: no numeric address. kSystem: the port cannot be had; names both.
  static Result<std::unique_ptr<HttpPage>> start(const std::string& address, uint16_t port,
                                                 std::function<std::string()> page);
  ~HttpPage();
  HttpPage(const HttpPage&) = delete;
  HttpPage& operator=(const HttpPage&) = delete;
  uint16_t port() const;

 private:
  struct State;
  explicit HttpPage(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rueda::core
