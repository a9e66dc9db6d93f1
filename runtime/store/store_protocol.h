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

/// The protocol between StoreClient and StoreServer, inside TLS 1.3 with the job's key (plain with RUEDA_INSECURE=1).
/// One connection carries many requests at once, each with an id of its own. The server answers in any order: a `get`
/// once the key has a value or the request's time is over. It does not answer a cancelled request unless the answer has
/// left already.
///
///   frame     u32 length of the rest (at most kMaxStoreFrameBytes; kMaxFirstFrameBytes for a client's first), then
///   request   u8 mark, u8 operation, u32 id, text key, i64 number, bytes value
///   reply     u8 mark, u32 id, i32 code, i64 number, bytes value (a sentence if the code is not kOk)
///
/// A client's first request asks for nothing (`first_request`). Once it has its answer, strangers cannot drive it out.
inline constexpr size_t kMaxStoreFrameBytes = kMaxValueBytes + kMaxKeyBytes + 64;
inline constexpr size_t kMaxFirstFrameBytes = 1024;

enum class StoreOperation : uint8_t { kSet = 1, kGet = 2, kAdd = 3, kCancel = 4, kRemove = 5 };

struct StoreRequest {
  StoreOperation operation = StoreOperation::kGet;
  std::string key;     ///< empty for cancel
  int64_t number = 0;  ///< the amount of an add; the milliseconds that a get waits, -1 for ever
  std::string value;
  uint32_t id = 0;  ///< for cancel, the id of the request to cancel
};

struct StoreReply {
  Status status;
  int64_t number = 0;  ///< the sum of an add
  std::string value;
  uint32_t id = 0;
};

/// The first request of a connection: a `get` that does not wait and changes nothing.
inline StoreRequest first_request() { return {StoreOperation::kGet, "first", 0, {}}; }

/// Returns a whole frame, length included.
std::vector<std::byte> encode(const StoreRequest& request);
std::vector<std::byte> encode(const StoreReply& reply);
/// Decode a frame's body. Return empty if it breaks a limit or is another kind of message.
std::optional<StoreRequest> decode_request(std::span<const std::byte> body);
std::optional<StoreReply> decode_reply(std::span<const std::byte> body);

/// Reads the frames of a stream, one at a time. Belongs to the stream's thread. The stream's pending read points into
/// it, so destroy the stream first.
class StoreFrameReader {
 public:
  /// Calls `started`, which may be empty, once a frame's length has come; then `done` with the body, borrowed for the
  /// call, or with the status of the broken stream. A length over `most_bytes` is kPeerLost. No memory for a frame is
  /// kSystem.
  using Done = std::function<void(const Status&, std::span<const std::byte> body)>;
  void read(SecureStream& stream, size_t most_bytes, std::function<void()> started, Done done);

 private:
  std::byte length_[4];
  std::vector<std::byte> body_;
};

}  // namespace rueda::core
