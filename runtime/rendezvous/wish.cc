// The records that ranks leave in the store. Each begins with a mark of its own kind, so none can be taken for another:
//
//   wish      | u32 mark | u32 protocol | text build | text nonce | i32 rank | i32 size | text key mark | endpoint |
//             | text agreed settings | text process sets | text unfit |
//   world     | u32 mark | varint n | endpoint x n | text agreed settings | u8 has key | 32 bytes of key |
//   report    | u32 mark | status | varint n | (i32 rank, text reason) x n |
//   numbers   | u32 mark | status | varint n | varint x n |
//
//   endpoint  | text host | i64 pid | text worker | varint n | text address x n | u16 port | text unix name |
//   status    | i32 code | i32 rank | text sentence |
//
// The head of a wish, up to the nonce, never changes: rank 0 must be able to refuse a rank of another protocol by name.
#include "runtime/rendezvous/wish.h"

#include <algorithm>

#include "runtime/base/wire.h"

namespace rueda::core {
namespace {

// "RUU1" to "RUU4" as bytes.
constexpr uint32_t kWishMark = 0x31555552;
constexpr uint32_t kWorldMark = 0x32555552;
constexpr uint32_t kReportMark = 0x33555552;
constexpr uint32_t kNumbersMark = 0x34555552;
constexpr size_t kMaxName = 1024;
constexpr size_t kMaxAddresses = 256;
constexpr size_t kMaxSettings = 64 << 10;
constexpr size_t kMaxSentence = 256 << 10;
constexpr int32_t kHighestWishCode = static_cast<int32_t>(Code::kUnsupported);

void write(WireWriter& writer, const Endpoint& endpoint) {
  writer.text(endpoint.host);
  writer.i64(endpoint.pid);
  writer.text(endpoint.worker);
  writer.varint(endpoint.addresses.size());
  for (const std::string& address : endpoint.addresses) writer.text(address);
  writer.u16(endpoint.port);
  writer.text(endpoint.unix_name);
}

Endpoint read_endpoint(WireReader& reader) {
  Endpoint endpoint;
  endpoint.host = reader.text(kMaxName);
  endpoint.pid = reader.i64();
  endpoint.worker = reader.text(kMaxName);
  const size_t addresses = reader.count(1);
  if (addresses > kMaxAddresses) reader.fail();
  for (size_t i = 0; i < addresses && reader.ok(); ++i) endpoint.addresses.push_back(reader.text(kMaxName));
  endpoint.port = reader.u16();
  endpoint.unix_name = reader.text(kMaxName);
  return endpoint;
}

void write(WireWriter& writer, const Status& status) {
  writer.i32(static_cast<int32_t>(status.code()));
  writer.i32(status.rank());
  writer.text(std::string_view(status.sentence()).substr(0, kMaxSentence));
}

Status read_status(WireReader& reader) {
  const int32_t code = reader.i32();
  const int32_t rank = reader.i32();
  std::string sentence = reader.text(kMaxSentence);
  if (code < 0 || code > kHighestWishCode) reader.fail();
  if (!reader.ok() || code == 0) return {};
  return {static_cast<Code>(code), std::move(sentence), rank};
}

Status unreadable(const char* what, size_t bytes) {
  return {Code::kMismatch,
          "the store holds " + std::to_string(bytes) + " bytes that are not a " + what + " of this program"};
}

}  // namespace

std::string encode(const Wish& wish) {
  WireWriter writer;
  writer.u32(kWishMark);
  writer.u32(wish.protocol);
  writer.text(wish.build);
  writer.text(wish.nonce);
  writer.i32(wish.rank);
  writer.i32(wish.size);
  writer.text(wish.key_mark);
  write(writer, wish.endpoint);
  writer.text(wish.agreed);
  writer.text(wish.process_sets);
  writer.text(std::string_view(wish.unfit).substr(0, kMaxSentence));
  return writer.take_text();
}

Result<Wish> decode_wish(std::string_view bytes) {
  WireReader reader(bytes);
  Wish wish;
  const uint32_t mark = reader.u32();
  wish.protocol = reader.u32();
  wish.build = reader.text(kMaxName);
  wish.nonce = reader.text(kMaxName);
  if (!reader.ok() || mark != kWishMark) return unreadable("wish", bytes.size());
  if (wish.protocol != kProtocolNumber) return wish;
  wish.rank = reader.i32();
  wish.size = reader.i32();
  wish.key_mark = reader.text(kMaxName);
  wish.endpoint = read_endpoint(reader);
  wish.agreed = reader.text(kMaxSettings);
  wish.process_sets = reader.text(kMaxName);
  wish.unfit = reader.text(kMaxSentence);
  if (!reader.finished()) return unreadable("wish", bytes.size());
  return wish;
}

std::string encode(const World& world) {
  WireWriter writer;
  writer.u32(kWorldMark);
  writer.varint(world.ranks.size());
  for (const Endpoint& endpoint : world.ranks) write(writer, endpoint);
  writer.text(world.agreed);
  writer.u8(world.key.present ? 1 : 0);
  if (world.key.present) writer.raw(std::as_bytes(std::span(world.key.bytes)));
  return writer.take_text();
}

Result<World> decode_world(std::string_view bytes) {
  WireReader reader(bytes);
  World world;
  const uint32_t mark = reader.u32();
  const size_t ranks = reader.count(1);
  for (size_t i = 0; i < ranks && reader.ok(); ++i) world.ranks.push_back(read_endpoint(reader));
  world.agreed = reader.text(kMaxSettings);
  world.key.present = reader.u8() != 0;
  if (world.key.present) {
    const auto key = reader.raw(world.key.bytes.size());
    std::transform(key.begin(), key.end(), world.key.bytes.begin(),
                   [](std::byte b) { return static_cast<uint8_t>(b); });
  }
  if (!reader.finished() || mark != kWorldMark) return unreadable("world", bytes.size());
  return world;
}

std::string encode(const LocalReport& report) {
  WireWriter writer;
  writer.u32(kReportMark);
  write(writer, report.status);
  writer.varint(report.failures.size());
  for (const LocalReport::Failure& failure : report.failures) {
    writer.i32(failure.rank);
    writer.text(std::string_view(failure.reason).substr(0, kMaxName));
  }
  return writer.take_text();
}

Result<LocalReport> decode_local_report(std::string_view bytes) {
  WireReader reader(bytes);
  LocalReport report;
  const uint32_t mark = reader.u32();
  report.status = read_status(reader);
  const size_t failures = reader.count(5);
  for (size_t i = 0; i < failures && reader.ok(); ++i) {
    const int rank = reader.i32();
    report.failures.push_back({rank, reader.text(kMaxName)});
  }
  if (!reader.finished() || mark != kReportMark) return unreadable("local report", bytes.size());
  return report;
}

std::string encode(const Status& status, const std::vector<uint64_t>& numbers) {
  WireWriter writer;
  writer.u32(kNumbersMark);
  write(writer, status);
  writer.varint(numbers.size());
  for (const uint64_t number : numbers) writer.varint(number);
  return writer.take_text();
}

Result<std::vector<uint64_t>> decode_numbers(std::string_view bytes) {
  WireReader reader(bytes);
  const uint32_t mark = reader.u32();
  const Status sent = read_status(reader);
  std::vector<uint64_t> numbers(reader.count(1));
  for (uint64_t& number : numbers) number = reader.varint();
  if (!reader.finished() || mark != kNumbersMark) return unreadable("answer", bytes.size());
  if (!sent.ok()) return sent;
  return numbers;
}

}  // namespace rueda::core
