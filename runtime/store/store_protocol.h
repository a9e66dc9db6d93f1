#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/store/store.h"

namespace rueda::core {

class SecureStream;

/// How StoreClient and StoreServer talk, inside TLS 1.3 with the job's key (plain with RUEDA_INSECURE=1). Many requests
/// may be on their way on one connection, each with an id that no other of them has, and are answered in any order: a
/// `get` when the key has a value or its time is over. A request that is cancelled is not answered, unless the answer
/// had left.
///
///   frame     u32 length of what follows (at most kMaxStoreFrameBytes, of a client's first kMaxFirstFrameBytes), then
///   request   u8 kRequestMark, u8 operation, u32 id, text key, i64 number, bytes value
///   reply     u8 kReplyMark, u32 id, i32 code, i64 number, bytes value (a sentence when the code is not kOk)
///
/// A client's first request asks for nothing (`first_request`): who has an answer will not be dropped among strangers.
inline constexpr size_t kMaxStoreFrameBytes = kMaxValueBytes + kMaxKeyBytes + 64;
inline constexpr size_t kMaxFirstFrameBytes = 1024;

enum class StoreOperation : uint8_t { kSet = 1, kGet = 2, kAdd = 3, kCancel = 4 };

struct StoreRequest {
  StoreOperation operation = StoreOperation::kGet;
  std::string key;     ///< cancel: none
  int64_t number = 0;  ///< add: the amount; get: milliseconds to wait, -1: for ever
  std::string value;
  uint32_t id = 0;  ///< cancel: that of the request that nobody waits for any more
};

struct StoreReply {
  Status status;
  int64_t number = 0;  ///< add: the sum
  std::string value;
  uint32_t id = 0;
};

/// Harmless however often it comes: a `get` that does not wait.
inline StoreRequest first_request() { return {StoreOperation::kGet, "first", 0, {}}; }

/// With the length in front: ready to be written.
std::vector<std::byte> encode(const StoreRequest& request);
std::vector<std::byte> encode(const StoreReply& reply);
/// Of a frame's body. Empty: it breaks a limit or is no such message.
std::optional<StoreRequest> decode_request(std::span<const std::byte> body);
std::optional<StoreReply> decode_reply(std::span<const std::byte> body);

/// Reads frames of a stream, one at a time. Belongs to the stream's thread and lies beside it: destroy the stream
/// first.
class StoreFrameReader {
 public:
  /// `started`: called when a frame's length has come and its body is to follow; may be empty.
  /// `done`: the body, borrowed for the call, or how the stream broke. A length over `most_bytes` is kPeerLost.
  using Done = std::function<void(const Status&, std::span<const std::byte> body)>;
  void read(SecureStream& stream, size_t most_bytes, std::function<void()> started, Done done);

 private:
  std::byte length_[4];
  std::vector<std::byte> body_;
};

}  // namespace rueda::core
