// Encodes and decodes the messages of launcher/messages.h, which shows their layout. Both ends are of one build (hvdrun
// refuses any other), so a StartOrder carries no version of its own:
//
//   StartOrder    build | directory | program | argv | environment | stores | relay_job | key | i64 grace_ms
//                 | u8 stay | i32 sharing | varint ranks | for each: a RankOrder
//   RankOrder     i32 rank | environment
//   Introduction  build | version | host | i32 cores | addresses | client
//
// Each text has its length before it, each list its count. The reader trusts none of them: a login shell or a broken
// ssh can put any bytes on the link. Lengths are bounded before memory is reserved, and a list grows as its texts are
// read, up to kMaxTexts for a whole message: an empty text takes 1 byte on the link and 32 in memory.

#include "launcher/messages.h"

#include <fmt/format.h>

#include <algorithm>

namespace rueda::core::launcher {
namespace {

constexpr size_t kHeaderBytes = 1 + 4 + 8;
constexpr size_t kMaxTextBytes = 2u << 20;  // more than Linux takes as one argument or variable (128 KiB)
constexpr size_t kMaxNameBytes = 1024;
constexpr size_t kMaxTexts = 1u << 20;  // more than Linux takes as arguments and variables of one program
constexpr size_t kMaxGreetingBytes = 64u << 10;

void write_texts(WireWriter& writer, const std::vector<std::string>& texts) {
  writer.varint(texts.size());
  for (const auto& text : texts) writer.text(text);
}

/// Reads a list and takes it off what the message may still have, `left`.
std::vector<std::string> read_texts(WireReader& reader, size_t& left) {
  std::vector<std::string> texts;
  const size_t count = reader.count(1);
  if (count > left) reader.fail();
  for (size_t i = 0; i < count && reader.ok(); ++i) texts.push_back(reader.text(kMaxTextBytes));
  left -= texts.size();
  return texts;
}

void write_rank(WireWriter& writer, const RankOrder& rank) {
  writer.i32(rank.rank);
  write_texts(writer, rank.environment);
}

RankOrder read_rank(WireReader& reader, size_t& left) {
  RankOrder rank;
  rank.rank = reader.i32();
  rank.environment = read_texts(reader, left);
  return rank;
}

bool known(uint8_t type) {
  return (type >= static_cast<uint8_t>(MessageType::kStart) && type <= static_cast<uint8_t>(MessageType::kEndOne)) ||
         (type >= static_cast<uint8_t>(MessageType::kStarted) && type <= static_cast<uint8_t>(MessageType::kPreempted));
}

}  // namespace

std::string encode(const StartOrder& order) {
  WireWriter writer;
  writer.text(order.build);
  writer.text(order.directory);
  writer.text(order.program);
  write_texts(writer, order.arguments);
  write_texts(writer, order.environment);
  write_texts(writer, order.stores);
  writer.text(order.relay_job);
  writer.text(order.key);
  writer.i64(order.grace_ms);
  writer.u8(static_cast<uint8_t>(order.stay));
  writer.i32(order.sharing);
  writer.varint(order.ranks.size());
  for (const auto& rank : order.ranks) write_rank(writer, rank);
  return writer.take_text();
}

std::optional<StartOrder> decode_start_order(std::string_view bytes) {
  WireReader reader(bytes);
  StartOrder order;
  size_t left = kMaxTexts;
  order.build = reader.text(kMaxTextBytes);
  order.directory = reader.text(kMaxTextBytes);
  order.program = reader.text(kMaxTextBytes);
  order.arguments = read_texts(reader, left);
  order.environment = read_texts(reader, left);
  order.stores = read_texts(reader, left);
  order.relay_job = reader.text(kMaxTextBytes);
  order.key = reader.text(kMaxTextBytes);
  order.grace_ms = reader.i64();
  const uint8_t stay = reader.u8();
  if (stay > static_cast<uint8_t>(AgentStay::kUntilEnd)) reader.fail();
  order.stay = static_cast<AgentStay>(stay);
  order.sharing = reader.i32();
  const size_t ranks = reader.count(5);
  if (ranks > left) reader.fail();
  for (size_t i = 0; i < ranks && reader.ok(); ++i) order.ranks.push_back(read_rank(reader, left));
  const bool idle = order.ranks.empty() && order.stay == AgentStay::kWhileRanksRun;
  if (!reader.finished() || order.arguments.empty() || idle) return std::nullopt;
  return order;
}

std::string encode(const RankOrder& order) {
  WireWriter writer;
  write_rank(writer, order);
  return writer.take_text();
}

std::optional<RankOrder> decode_rank_order(std::string_view bytes) {
  WireReader reader(bytes);
  size_t left = kMaxTexts;
  RankOrder order = read_rank(reader, left);
  if (!reader.finished() || order.rank < 0) return std::nullopt;
  return order;
}

std::string encode(const Introduction& introduction) {
  WireWriter writer;
  writer.text(introduction.build);
  writer.text(introduction.version);
  writer.text(introduction.host);
  writer.i32(introduction.cores);
  write_texts(writer, introduction.addresses);
  writer.text(introduction.client);
  return writer.take_text();
}

std::optional<Introduction> decode_introduction(std::string_view bytes) {
  WireReader reader(bytes);
  Introduction introduction;
  introduction.build = reader.text(kMaxNameBytes);
  introduction.version = reader.text(kMaxNameBytes);
  introduction.host = reader.text(kMaxNameBytes);
  introduction.cores = reader.i32();
  size_t left = kMaxTexts;
  introduction.addresses = read_texts(reader, left);
  introduction.client = reader.text(kMaxNameBytes);
  if (!reader.finished()) return std::nullopt;
  return introduction;
}

std::vector<std::byte> encode(const Message& message) {
  WireWriter writer;
  writer.u32(static_cast<uint32_t>(kHeaderBytes + message.bytes.size()));
  writer.u8(static_cast<uint8_t>(message.type));
  writer.i32(message.rank);
  writer.i64(message.number);
  writer.raw(std::as_bytes(std::span(message.bytes)));
  return writer.take();
}

// Bytes that were read are dropped here and not after each message, so that a burst of messages is moved once.
void MessageReader::feed(std::span<const std::byte> bytes) {
  if (read_ > 0) {
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<ptrdiff_t>(read_));
    read_ = 0;
  }
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

// Searches for the magic, because a login shell may have printed anything before it.
Status MessageReader::skip_greeting() {
  const auto magic = std::as_bytes(std::span(kAgentMagic));
  const auto from = buffer_.begin() + static_cast<ptrdiff_t>(read_);
  const auto found = std::search(from, buffer_.end(), magic.begin(), magic.end());
  if (found != buffer_.end()) {
    greeted_ = true;
    read_ = static_cast<size_t>(found - buffer_.begin()) + magic.size();
    return {};
  }
  if (buffer_.size() - read_ <= kMaxGreetingBytes) return {};
  return {Code::kSystem, fmt::format("the agent sent no greeting within {} bytes", kMaxGreetingBytes)};
}

std::string MessageReader::ungreeted() const {
  if (greeted_) return {};
  std::string_view text(reinterpret_cast<const char*>(buffer_.data()), buffer_.size());
  text = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
  const size_t before = text.find_last_of("\r\n");
  return std::string(text.substr(before == std::string_view::npos ? 0 : before + 1).substr(0, kMaxQuote));
}

Result<std::optional<Message>> MessageReader::next() {
  if (!greeted_) {
    if (Status status = skip_greeting(); !status.ok()) return status;
    if (!greeted_) return std::optional<Message>();
  }
  WireReader reader(std::span<const std::byte>(buffer_).subspan(read_));
  const size_t length = reader.u32();
  if (!reader.ok()) return std::optional<Message>();
  if (length < kHeaderBytes || length > kMaxMessageBytes) {
    return Status(Code::kSystem,
                  fmt::format("a message has {} bytes; allowed are {} to {}", length, kHeaderBytes, kMaxMessageBytes));
  }
  if (reader.left() < length) return std::optional<Message>();
  Message message;
  const uint8_t type = reader.u8();
  if (!known(type)) return Status(Code::kSystem, fmt::format("a message has the unknown type {}", type));
  message.type = static_cast<MessageType>(type);
  message.rank = reader.i32();
  message.number = reader.i64();
  const auto body = reader.raw(length - kHeaderBytes);
  message.bytes.assign(reinterpret_cast<const char*>(body.data()), body.size());
  read_ += sizeof(uint32_t) + length;
  return std::optional<Message>(std::move(message));
}

}  // namespace rueda::core::launcher
