// The wire format between hvdrun and agents: round trips, and refusal of everything cut short, too long or unknown.

#include "launcher/messages.h"

#include <catch2/catch.hpp>

using namespace rueda::core;
using namespace rueda::core::launcher;

namespace {

StartOrder sample_order() {
  StartOrder order;
  order.build = "1.0.0-x";
  order.directory = "/some where";
  order.program = "/bin/sh";
  order.arguments = {"sh", "-c", "", "a b\n\"c'"};
  order.environment = {"A=1", "B="};
  order.stores = {"10.0.0.1:4000", "[fd00::1]:4000"};
  order.key = std::string(32, '\0');
  order.grace_ms = 1234;
  order.ranks = {{0, {"RUEDA_RANK=0"}}, {1, {}}};
  return order;
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

}  // namespace

TEST_CASE("a start order is decoded as it was encoded") {
  const auto sent = sample_order();
  const auto got = decode_start_order(encode(sent));
  REQUIRE(got.has_value());
  CHECK(got->build == sent.build);
  CHECK(got->directory == sent.directory);
  CHECK(got->program == sent.program);
  CHECK(got->arguments == sent.arguments);
  CHECK(got->environment == sent.environment);
  CHECK(got->key == sent.key);
  CHECK(got->stores == sent.stores);
  CHECK(got->grace_ms == sent.grace_ms);
  CHECK(got->stay == AgentStay::kWhileRanksRun);
  CHECK(got->sharing == 1);
  REQUIRE(got->ranks.size() == 2);
  CHECK(got->ranks[0].environment == sent.ranks[0].environment);
  CHECK(got->ranks[1].rank == 1);
}

TEST_CASE("an order to start one worker is decoded as it was encoded, and cut or longer it is refused") {
  const std::string whole = encode(RankOrder{7, {"RUEDA_WORKER_ID=7", ""}});
  const auto got = decode_rank_order(whole);
  REQUIRE(got.has_value());
  CHECK(got->rank == 7);
  CHECK(got->environment == std::vector<std::string>{"RUEDA_WORKER_ID=7", ""});
  for (size_t length = 0; length < whole.size(); ++length)
    CHECK_FALSE(decode_rank_order(whole.substr(0, length)).has_value());
  CHECK_FALSE(decode_rank_order(whole + "x").has_value());
  CHECK_FALSE(decode_rank_order(encode(RankOrder{-1, {}})).has_value());
}

TEST_CASE("a start order with missing or extra bytes is refused") {
  const std::string whole = encode(sample_order());
  for (size_t length = 0; length < whole.size(); ++length) {
    INFO("cut to " << length << " of " << whole.size());
    CHECK_FALSE(decode_start_order(whole.substr(0, length)).has_value());
  }
  CHECK_FALSE(decode_start_order(whole + "x").has_value());
  auto nobody = sample_order();
  nobody.ranks.clear();
  CHECK_FALSE(decode_start_order(encode(nobody)).has_value());
  nobody.stay = AgentStay::kUntilEnd;  // workers follow one by one
  CHECK(decode_start_order(encode(nobody)).has_value());
}

TEST_CASE("a message of nothing but empty texts is refused before they take memory") {
  auto order = sample_order();
  order.environment.assign(1u << 20, "");
  CHECK_FALSE(decode_start_order(encode(order)).has_value());
  order.environment.resize(1000);
  CHECK(decode_start_order(encode(order)).has_value());
  order.ranks.assign(1u << 20, {});
  CHECK_FALSE(decode_start_order(encode(order)).has_value());
  Introduction introduction{"1.0.0-x", "1.0.0", "node7", 64, {}, ""};
  introduction.addresses.assign((1u << 20) + 1, "");
  CHECK_FALSE(decode_introduction(encode(introduction)).has_value());
}

TEST_CASE("an introduction is decoded as it was encoded, and refused if cut short") {
  const Introduction sent{"1.0.0-x", "1.0.0", "node7", 64, {"10.0.0.7", "fd00::7"}, "10.0.0.1"};
  const std::string whole = encode(sent);
  const auto got = decode_introduction(whole);
  REQUIRE(got.has_value());
  CHECK(got->build == sent.build);
  CHECK(got->version == sent.version);
  CHECK(got->host == sent.host);
  CHECK(got->cores == sent.cores);
  CHECK(got->addresses == sent.addresses);
  CHECK(got->client == sent.client);
  for (size_t length = 0; length < whole.size(); ++length) {
    INFO("cut to " << length << " of " << whole.size());
    CHECK_FALSE(decode_introduction(whole.substr(0, length)).has_value());
  }
  CHECK_FALSE(decode_introduction(whole + "x").has_value());
}

TEST_CASE("messages come out of a stream whatever portions it is fed in") {
  std::vector<std::byte> stream = bytes_of("Welcome to this host!\nRUEDA AGEN\nRUEDA AGENT 1\n");
  const std::vector<Message> sent = {{MessageType::kOutput, 3, 2, std::string("a\0b", 3)},
                                     {MessageType::kDone, -1, 0, {}},
                                     {MessageType::kExited, 7, 0x7f00, {}}};
  for (const auto& message : sent) {
    const auto bytes = encode(message);
    stream.insert(stream.end(), bytes.begin(), bytes.end());
  }
  for (size_t step = 1; step <= stream.size(); ++step) {
    MessageReader reader(MessageReader::Greeting::kMagicFirst);
    std::vector<Message> got;
    for (size_t at = 0; at < stream.size(); at += step) {
      reader.feed(std::span(stream).subspan(at, std::min(step, stream.size() - at)));
      for (auto next = reader.next(); next.ok() && next.value(); next = reader.next()) got.push_back(*next.value());
    }
    INFO("portions of " << step);
    REQUIRE(got.size() == sent.size());
    for (size_t i = 0; i < sent.size(); ++i) {
      CHECK(got[i].type == sent[i].type);
      CHECK(got[i].rank == sent[i].rank);
      CHECK(got[i].number == sent[i].number);
      CHECK(got[i].bytes == sent[i].bytes);
    }
  }
}

TEST_CASE("a stream that holds no messages is refused") {
  const auto refused = [](MessageReader::Greeting greeting, const std::vector<std::byte>& bytes) {
    MessageReader reader(greeting);
    reader.feed(bytes);
    return reader.next().status().sentence();
  };
  WireWriter huge, unknown, tiny;
  huge.u32(0xffffffff);
  tiny.u32(1);
  unknown.u32(13);
  unknown.u8(200);
  unknown.i32(0);
  unknown.i64(0);
  using Greeting = MessageReader::Greeting;
  CHECK(refused(Greeting::kNone, huge.take()) == "a message has 4294967295 bytes; allowed are 13 to 16777216");
  CHECK(refused(Greeting::kNone, tiny.take()) == "a message has 1 bytes; allowed are 13 to 16777216");
  CHECK(refused(Greeting::kNone, unknown.take()) == "a message has the unknown type 200");
  CHECK(refused(Greeting::kMagicFirst, std::vector<std::byte>(70000)) ==
        "the agent sent no greeting within 65536 bytes");
}

TEST_CASE("the last line of what came instead of a greeting can be quoted, up to a limit") {
  const auto ungreeted = [](const std::string& text) {
    MessageReader reader(MessageReader::Greeting::kMagicFirst);
    reader.feed(bytes_of(text));
    CHECK(reader.next().ok());
    return reader.ungreeted();
  };
  CHECK(ungreeted("").empty());
  CHECK(ungreeted("\r\n \n").empty());
  CHECK(ungreeted("Welcome!\n\nThis account is closed.\r\n") == "This account is closed.");
  CHECK(ungreeted("no newline") == "no newline");
  CHECK(ungreeted(std::string(5000, 'x')) == std::string(kMaxQuote, 'x'));
  CHECK(ungreeted("Welcome!\n" + std::string(kAgentMagic)).empty());
}
