#pragma once
#include <boost/asio/io_context.hpp>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "runtime/net/secure_stream.h"
#include "runtime/store/store_desk.h"
#include "runtime/store/store_protocol.h"

namespace rueda::core {

/// The client's end of a connection to a store: a desk that passes on what it is asked. Belongs to the thread that runs
/// its loop. Once the connection is broken, every request before and after is answered with `broken`. An answer that
/// throws breaks the connection.
class StorePipe : public StoreDesk {
 public:
  /// `io` outlives it. `tls` is null for a store without a key.
  StorePipe(boost::asio::io_context& io, UniqueFd socket, std::shared_ptr<TlsContext> tls);
  /// Drops all requests; their answers are never called.
  ~StorePipe() override;

  /// The stream, for the handshake that comes before all else.
  SecureStream& stream() { return stream_; }
  uint64_t ask(const StoreRequest& request, Answer answer) override;
  void cancel(uint64_t number) override;
  const Status& broken() const { return broken_; }

 private:
  void read();
  void take(std::span<const std::byte> body);
  void send(std::vector<std::byte> frame);
  void write();
  template <typename Step>
  void or_break(Step&& step);
  void fail(const Status& why);

  StoreFrameReader reader_;
  std::deque<std::vector<std::byte>> out_;
  std::map<uint32_t, Answer> asked_;
  uint32_t last_id_ = 0;
  bool reading_ = false;
  Status broken_;
  SecureStream stream_;
};

}  // namespace rueda::core
