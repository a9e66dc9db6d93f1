#include "runtime/engine/inquiry.h"

#include <catch2/catch.hpp>
#include <cstdio>

#include "runtime/engine/activity.h"
#include "runtime/engine/task_thread.h"

namespace rueda::core {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

constexpr SteadyClock::time_point kStart{1000s};

StallVerdict verdict_about(std::vector<int> lack) {
  StallVerdict verdict;
  StallReport report;
  report.what = {"allreduce \"w\""};
  report.have = {0};
  report.lack = std::move(lack);
  report.age = 30s;
  verdict.reports.push_back(report);
  return verdict;
}

StallVerdict verdict_about_batch(std::vector<int> members) {
  StallVerdict verdict;
  StallReport report;
  report.kind = StallKind::kRunning;
  report.set = 6;
  report.batch = 17;
  report.what = {"allreduce \"w\" (ring)"};
  report.have = std::move(members);
  report.age = 30s;
  verdict.reports.push_back(report);
  return verdict;
}

std::vector<std::string> names(int size) {
  std::vector<std::string> all;
  for (int rank = 0; rank < size; ++rank) all.push_back("rank " + std::to_string(rank) + " (host a, pid 1)");
  return all;
}

}  // namespace

TEST_CASE("a report waits for those who were asked, and says what each does instead") {
  Inquiry inquiry;
  CHECK(inquiry.begin(verdict_about({1, 2}), kStart) == std::vector<int>{1, 2});
  inquiry.answer(2, {inquiry.number(), "has nothing in flight"});
  CHECK_FALSE(inquiry.due(kStart + 1s, names(3), {}));
  inquiry.answer(1, {inquiry.number(), "is busy"});
  const std::optional<StallText> text = inquiry.due(kStart + 1s, names(3), {});
  REQUIRE(text);
  const std::vector<std::string>& lines = text->lines;
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == "stall for 30.0 s: allreduce \"w\": submitted by rank 0, not by ranks 1-2");
  CHECK(lines[1] == "  rank 1 (host a, pid 1): is busy");
  CHECK(lines[2] == "  rank 2 (host a, pid 1): has nothing in flight");
  CHECK(text->reason == lines[0] + "; rank 1 (host a, pid 1): is busy");
  CHECK(text->missing == 1);
  CHECK_FALSE(text->shut_down);
  CHECK_FALSE(inquiry.due(kStart + 9s, names(3), {}));  // once
}

TEST_CASE("who does not answer in time is said not to, and an answer to an older question does not count") {
  Inquiry inquiry;
  static_cast<void>(inquiry.begin(verdict_about({1}), kStart));
  const uint64_t old = inquiry.number();
  static_cast<void>(inquiry.begin(verdict_about({1}), kStart));
  inquiry.answer(1, {old, "too late"});
  CHECK_FALSE(inquiry.due(kStart + 1s, names(2), {}));
  CHECK_THAT(inquiry.due(kStart + 2s, names(2), {}).value().lines.at(1),
             Contains("rank 1 (host a, pid 1): does not answer"));
}

TEST_CASE("of a batch that runs all members are asked how far they are, and who waits for nobody is told in full") {
  Inquiry inquiry;
  CHECK(inquiry.begin(verdict_about_batch({0, 1, 2, 3, 4}), kStart) == std::vector<int>{0, 1, 2, 3, 4});
  REQUIRE(inquiry.ask().batches.size() == 1);
  CHECK(inquiry.ask().batches[0].set == 6);
  CHECK(inquiry.ask().batches[0].number == 17);
  const auto answer = [&](int rank, BatchProgress progress) {
    inquiry.answer(rank, {inquiry.number(), "text of " + std::to_string(rank), {progress}});
  };
  answer(0, {BatchStage::kRunning, 2});
  answer(1, {BatchStage::kRunning, Mesh::kDevice});
  answer(2, {BatchStage::kRunning, Mesh::kNobody});
  answer(3, {BatchStage::kOver});
  const std::optional<StallText> text = inquiry.due(kStart + Inquiry::kPatience, names(5), {});
  REQUIRE(text);
  CHECK(text->lines ==
        std::vector<std::string>{
            "stall for 30.0 s: allreduce \"w\" (ring) is running: finished by rank 3, started by ranks 0-2, no answer "
            "from rank 4",
            "  rank 1 waits for its device, on which the batch is launched and not finished",
            "  rank 2 waits for no other rank", "  rank 0 waits for rank 2", "  rank 2 (host a, pid 1): text of 2",
            "  rank 4 (host a, pid 1): does not answer; it may be stopped or busy"});
  CHECK_FALSE(text->shut_down);
}

TEST_CASE("who has not started a batch is told with what it does") {
  Inquiry inquiry;
  static_cast<void>(inquiry.begin(verdict_about_batch({0, 1}), kStart));
  inquiry.answer(0, {inquiry.number(), "waits", {{BatchStage::kRunning, 1}}});
  inquiry.answer(1, {inquiry.number(), "is elsewhere", {{BatchStage::kNotStarted}}});
  const std::optional<StallText> text = inquiry.due(kStart, names(2), {});
  REQUIRE(text);
  CHECK_THAT(text->lines.at(0), Contains("started by rank 0, not started by rank 1"));
  CHECK(text->lines.at(1) == "  rank 0 waits for rank 1");
  CHECK(text->lines.at(2) == "  rank 1 (host a, pid 1): is elsewhere");
  CHECK(text->lines.size() == 3);
}

TEST_CASE("a batch that has ended when all are asked is not told of") {
  Inquiry inquiry;
  static_cast<void>(inquiry.begin(verdict_about_batch({0, 1}), kStart));
  for (const int rank : {0, 1}) inquiry.answer(rank, {inquiry.number(), "", {{BatchStage::kOver}}});
  CHECK(inquiry.due(kStart, names(2), {}).value().lines.empty());
}

TEST_CASE("the reason for an end is the stall whose limit has passed, not a batch that runs for longer") {
  Inquiry inquiry;
  StallVerdict verdict = verdict_about_batch({0, 1});
  verdict.reports.push_back(verdict_about({1}).reports.front());
  verdict.reports.back().over = verdict.shut_down = true;
  static_cast<void>(inquiry.begin(std::move(verdict), kStart));
  const std::optional<StallText> text = inquiry.due(kStart + Inquiry::kPatience, names(2), {});
  REQUIRE(text);
  CHECK(text->shut_down);
  CHECK(text->missing == 1);
  CHECK_THAT(text->reason, Contains("not by rank 1"));
}

TEST_CASE("a verdict that ends the job is told when the answers are there, or their time is over") {
  Inquiry inquiry;
  StallVerdict verdict = verdict_about({1});
  verdict.shut_down = verdict.reports.front().over = true;
  static_cast<void>(inquiry.begin(std::move(verdict), kStart));
  CHECK_FALSE(inquiry.due(kStart + 1s, names(2), {}));
  const std::optional<StallText> text = inquiry.due(kStart + Inquiry::kPatience, names(2), {});
  REQUIRE(text);
  CHECK(text->shut_down);
}

TEST_CASE("of many missing ranks the first few are asked and the others counted") {
  Inquiry inquiry;
  std::vector<int> lack;
  for (int rank = 1; rank <= 20; ++rank) lack.push_back(rank);
  CHECK(inquiry.begin(verdict_about(lack), kStart).size() == Inquiry::kMostAsked);
  CHECK_THAT(inquiry.due(kStart + 5s, names(21), {}).value().lines.back(), Contains("12 more ranks were not asked"));
}

TEST_CASE("questions and answers travel within bounds, and what is cut off or too long is refused with the rank") {
  const Ask ask = decode_ask(encode_ask({7, {{3, 900}}}), 0).value();
  CHECK(ask.number == 7);
  REQUIRE(ask.batches.size() == 1);
  CHECK(ask.batches[0].set == 3);
  CHECK(ask.batches[0].number == 900);
  const std::vector<std::byte> answer = encode_answer({7, "text", {{BatchStage::kRunning, 5}, {BatchStage::kOver}}});
  const Answer launched{7, "text", {{BatchStage::kRunning, Mesh::kDevice}}};
  CHECK(decode_answer(encode_answer(launched), 3).value().batches.at(0).awaited == Mesh::kDevice);
  CHECK(decode_answer(answer, 3).value().text == "text");
  REQUIRE(decode_answer(answer, 3).value().batches.size() == 2);
  CHECK(decode_answer(answer, 3).value().batches[0].awaited == 5);
  CHECK(decode_answer(answer, 3).value().batches[1].stage == BatchStage::kOver);
  CHECK(decode_answer(answer, 3).value().batches[1].awaited == Mesh::kNobody);
  CHECK(decode_answer(encode_answer({7, std::string(9999, 'x')}), 3).value().text.size() == kMaxAnswerBytes);
  for (size_t length = 0; length < answer.size(); ++length) {
    const Result<Answer> cut = decode_answer(std::span(answer).first(length), 3);
    REQUIRE_FALSE(cut.ok());
    CHECK(cut.status().code() == Code::kPeerLost);
    CHECK(cut.status().rank() == 3);
  }
  std::vector<std::byte> longer = encode_ask({7});
  longer.push_back(std::byte{1});
  CHECK_THAT(decode_ask(longer, 0).status().sentence(), Contains("rank 0 sent a question that breaks the protocol"));
}

TEST_CASE("a program that does not answer keeps nobody waiting, and its answer counts for those who ask later") {
  std::atomic<bool> may_answer{false};
  std::atomic<int> asked{0};
  Activity activity;
  CHECK(activity.ask().empty());
  activity.set([&](char* text, size_t capacity) {
    ++asked;
    may_answer.wait(false);
    std::snprintf(text, capacity, "train.py:31");
  });
  CHECK_THAT(activity.ask(), Contains("did not answer within 1 s"));
  may_answer = true;
  may_answer.notify_all();
  std::string text = activity.ask();
  while (text != "train.py:31") text = activity.ask();  // where the machine is slow
  CHECK(asked >= 1);
  activity.stop();
  CHECK(activity.ask().empty());
}

TEST_CASE("a task thread runs what is posted in order on one thread, and nothing once it was stopped") {
  std::vector<int> order;
  std::thread::id thread;
  std::atomic<int> done{0};
  TaskThread tasks;
  for (int i = 0; i < 20; ++i) {
    CHECK(tasks
              .post([&, i] {
                order.push_back(i);
                thread = std::this_thread::get_id();
                ++done;
                done.notify_all();
              })
              .ok());
  }
  for (int seen = done.load(); seen < 20; seen = done.load()) done.wait(seen);
  tasks.stop();
  CHECK(tasks.post([&] { order.push_back(99); }).ok());
  CHECK(order.size() == 20);
  CHECK(std::is_sorted(order.begin(), order.end()));
  CHECK(thread != std::this_thread::get_id());
}

}  // namespace rueda::core
