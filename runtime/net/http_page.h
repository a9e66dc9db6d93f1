#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/base/status.h"

namespace rueda::core {

/// One page over HTTP/1.1, for programs that scrape figures: `GET /metrics` gets it, every other request gets 404. Runs
/// a thread of its own. Takes at most 16 connections at a time, each with one request of at most 16 KiB (8 KiB of
/// header) within 5 s. One thread makes and destroys it; the destructor waits for the server's thread.
class HttpPage {
 public:
  /// `address` is numeric; with `port` 0 the system chooses one. The server's thread calls `page` for every request.
  /// Returns kInvalidArgument if `address` is not numeric, kSystem if the port cannot be had; the sentence names both.
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
