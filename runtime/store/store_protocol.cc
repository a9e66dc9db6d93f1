// The wire format of the store:
//
//   frame     | u32 length | body |
//   request   | u8 0xC6 | u8 operation | u32 id | text key | i64 number | bytes value |
//   reply     | u8 0x6C | u32 id | i32 code | i64 number | bytes value or sentence |
//
// Decoding accepts a body only if every field is within its limit and nothing is left over, so the bytes of another
// protocol, or of a peer that errs, never become a request.
#include "runtime/store/store_protocol.h"

#include <exception>

#include "runtime/base/shortage.h"
#include "runtime/base/wire.h"
#include "runtime/net/secure_stream.h"

namespace rueda::core {
namespace {

constexpr uint8_t kRequestMark = 0xC6;
constexpr uint8_t kReplyMark = 0x6C;
constexpr auto kHighestOperation = static_cast<uint8_t>(StoreOperation::kRemove);
constexpr int32_t kHighestCode = static_cast<int32_t>(Code::kUnsupported);

std::vector<std::byte> with_length(const WireWriter& body) {
  WireWriter frame;
  frame.u32(static_cast<uint32_t>(body.size()));
  frame.raw(body.view());
  return frame.take();
}

Status bad_length(uint32_t length, size_t most) noexcept try {
  return Status(Code::kPeerLost,
                "a frame of " + std::to_string(length) + " bytes came; a frame has 1 to " + std::to_string(most));
} catch (const std::exception& error) {
  return failure_of(error);
}

}  // namespace

std::vector<std::byte> encode(const StoreRequest& request) {
  WireWriter body;
  body.u8(kRequestMark);
  body.u8(static_cast<uint8_t>(request.operation));
  body.u32(request.id);
  body.text(request.key);
  body.i64(request.number);
  body.text(request.value);
  return with_length(body);
}

std::vector<std::byte> encode(const StoreReply& reply) {
  WireWriter body;
  body.u8(kReplyMark);
  body.u32(reply.id);
  body.i32(static_cast<int32_t>(reply.status.code()));
  body.i64(reply.number);
  body.text(reply.status.ok() ? reply.value : reply.status.sentence());
  return with_length(body);
}

std::optional<StoreRequest> decode_request(std::span<const std::byte> body) {
  WireReader reader(body);
  StoreRequest request;
  if (reader.u8() != kRequestMark) return std::nullopt;
  const uint8_t operation = reader.u8();
  request.id = reader.u32();
  request.key = reader.text(kMaxKeyBytes);
  request.number = reader.i64();
  request.value = reader.text(kMaxValueBytes);
  // After the whole body, because a reader that has failed gives zeros.
  if (!reader.finished() || operation < 1 || operation > kHighestOperation) return std::nullopt;
  request.operation = static_cast<StoreOperation>(operation);
  if (request.key.empty() != (request.operation == StoreOperation::kCancel)) return std::nullopt;
  return request;
}

std::optional<StoreReply> decode_reply(std::span<const std::byte> body) {
  WireReader reader(body);
  StoreReply reply;
  if (reader.u8() != kReplyMark) return std::nullopt;
  reply.id = reader.u32();
  const int32_t code = reader.i32();
  reply.number = reader.i64();
  reply.value = reader.text(kMaxValueBytes);
  if (!reader.finished() || code < 0 || code > kHighestCode) return std::nullopt;
  if (code != 0) reply.status = Status(static_cast<Code>(code), std::exchange(reply.value, {}));
  return reply;
}

void StoreFrameReader::read(SecureStream& stream, size_t most_bytes, std::function<void()> started, Done done) {
  stream.read(length_, [this, &stream, most_bytes, started = std::move(started), done = std::move(done)](
                           const Status& status, size_t) {
    if (!status.ok()) return done(status, {});
    const uint32_t length = WireReader(std::span<const std::byte>(length_)).u32();
    // The length is checked before a byte of memory is spent on it.
    if (length == 0 || length > most_bytes) return done(bad_length(length, most_bytes), {});
    try {
      if (started) started();
      body_.resize(length);
      stream.read(body_, [this, done](const Status& body_status, size_t) {
        done(body_status, body_status.ok() ? std::span<const std::byte>(body_) : std::span<const std::byte>());
      });
    } catch (const std::exception& error) {
      done(failure_of(error), {});
    }
  });
}

}  // namespace rueda::core
