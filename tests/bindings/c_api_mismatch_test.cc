// Ranks that submit different things under one name: one sentence for all, and everything stays usable.
#include <catch2/catch.hpp>
#include <mutex>
#include <string>
#include <vector>

#include "tests/bindings/submission.h"
#include "tests/support/scale.h"

namespace rueda::test {
namespace {

Ending run(rueda_session* session, const Submission& submission) { return run(session, submission, "w"); }

// All ranks submit `usual`, rank 2 `odd`. `words`: what the sentence must say of both. `warm` runs `usual` twice
// before, so that the name has an id and the ranks send nothing but that.
enum class Start { kCold, kCached };
void expect_mismatch(const Submission& usual, const Submission& odd, const std::vector<std::string>& words,
                     Start start) {
  constexpr int kRanks = 4;
  std::vector<std::string> sentences(kRanks);
  run_ranks(kRanks, [&](rueda_session* session, int rank) {
    for (int i = 0; start == Start::kCached && i < 2; ++i) {
      const Ending warm = run(session, usual);
      expect(warm.code == RUEDA_OK, "before: " + warm.sentence);
    }
    const Ending ending = run(session, rank == 2 ? odd : usual);
    expect(ending.code == RUEDA_MISMATCH,
           std::string("ended with ") + rueda_error_name(ending.code) + " " + ending.sentence);
    sentences[static_cast<size_t>(rank)] = ending.sentence;
    const Ending again = run(session, usual);
    expect(again.code == RUEDA_OK, "the same name afterwards: " + again.sentence);
    expect_usable(session, "after a mismatch");
  });
  for (const std::string& sentence : sentences) CHECK(sentence == sentences[0]);
  INFO(sentences[0]);
  CHECK(sentences[0].find("\"w\"") != std::string::npos);
  CHECK(sentences[0].find("rank 2") != std::string::npos);
  CHECK(sentences[0].find("0-1") != std::string::npos);
  for (const std::string& word : words) CHECK(sentences[0].find(word) != std::string::npos);
}

void expect_mismatch(const Submission& usual, const Submission& odd, const std::vector<std::string>& words) {
  for (const Start start : {Start::kCold, Start::kCached}) expect_mismatch(usual, odd, words, start);
}

using Kind = Submission::Kind;

}  // namespace

TEST_CASE("ranks that disagree on the dtype get one sentence") {
  expect_mismatch({}, {.dtype = RUEDA_F64}, {"f32", "f64"});
}
TEST_CASE("ranks that disagree on the shape get one sentence") {
  expect_mismatch({}, {.shape = {5}}, {"[4]", "[5]"});
  expect_mismatch({}, {.shape = {2, 2}}, {"[4]", "[2, 2]"});
}
TEST_CASE("ranks that disagree on the operator get one sentence") {
  expect_mismatch({}, {.op = RUEDA_AVERAGE}, {"sum", "average"});
}
TEST_CASE("ranks that disagree on the scale get one sentence") {
  expect_mismatch({}, {.prescale = 0.5}, {"0.5"});
  expect_mismatch({}, {.postscale = 0.25}, {"0.25"});
}
TEST_CASE("ranks that disagree on the codec get one sentence") {
  expect_mismatch({}, {.codec = RUEDA_CODEC_FP16}, {"none", "fp16"});
}
TEST_CASE("ranks that disagree on the root get one sentence") {
  expect_mismatch({.kind = Kind::kBroadcast}, {.kind = Kind::kBroadcast, .root = 3}, {"root"});
}
TEST_CASE("ranks that disagree on the bytes of an opaque element get one sentence") {
  const Submission opaque{.kind = Kind::kBroadcast, .dtype = RUEDA_OPAQUE, .element_bytes = 12};
  Submission other = opaque;
  other.element_bytes = 16;
  expect_mismatch(opaque, other, {"element bytes differs", "12", "16"});
}
TEST_CASE("ranks that disagree on the kind of operation get one sentence") {
  expect_mismatch({}, {.kind = Kind::kBroadcast}, {"allreduce", "broadcast"});
  expect_mismatch({}, {.kind = Kind::kBarrier}, {"allreduce", "barrier"});
}

TEST_CASE("ranks that disagree on a reduce-scatter get one sentence, whatever the field") {
  const auto dealt = [](Submission submission) {
    submission.kind = Kind::kReducescatter;
    return submission;
  };
  expect_mismatch(dealt({}), dealt({.dtype = RUEDA_F64}), {"f32", "f64"});
  expect_mismatch(dealt({}), dealt({.shape = {5}}), {"[4]", "[5]"});
  expect_mismatch(dealt({}), dealt({.op = RUEDA_AVERAGE}), {"sum", "average"});
  expect_mismatch(dealt({}), dealt({.codec = RUEDA_CODEC_FP16}), {"none", "fp16"});
  expect_mismatch(dealt({}), dealt({.prescale = 0.5}), {"0.5"});
  expect_mismatch(dealt({}), dealt({.postscale = 0.25}), {"0.25"});
  expect_mismatch(dealt({}), {}, {"reducescatter", "allreduce"});
}

TEST_CASE("ranks that disagree on an exchange get one sentence, but never about their rows") {
  for (const Kind kind : {Kind::kAllgather, Kind::kAlltoall, Kind::kGather, Kind::kScatter}) {
    const auto moved = [kind](Submission submission) {
      submission.kind = kind;
      return submission;
    };
    const Submission usual = moved({.shape = {4, 2}});
    expect_mismatch(usual, moved({.dtype = RUEDA_I32, .shape = {4, 2}}), {"f32", "i32"});
    expect_mismatch(usual, moved({.shape = {4, 3}}), {"[*, 2]", "[*, 3]"});
    expect_mismatch(usual, moved({.shape = {4}}), {"[*, 2]", "[*]"});
    expect_mismatch(usual, {.shape = {4, 2}}, {"kind", "allreduce"});
    run_ranks(2, [&](rueda_session* session, int rank) {
      for (int step = 0; step < 3; ++step) {
        const Ending ending = run(session, moved({.shape = {2 * (rank + step), 2}}));
        expect(ending.code == RUEDA_OK, ending.sentence);
      }
    });
  }
}
TEST_CASE("ranks that disagree on a root get one sentence, whatever the kind") {
  for (const Kind kind : {Kind::kReduce, Kind::kGather, Kind::kScatter}) {
    expect_mismatch({.kind = kind}, {.kind = kind, .root = 3}, {"root", "rank 0", "rank 3"});
  }
  expect_mismatch({.kind = Kind::kReduce}, {.kind = Kind::kReduce, .op = RUEDA_MAX}, {"sum", "max"});
}

TEST_CASE("ranks that disagree on the members of a group get one sentence for the whole group") {
  std::vector<std::string> sentences(2);
  run_ranks(2, [&](rueda_session* session, int rank) {
    std::vector<float> a(4), b(4), c(4);
    const CTensor first(a, RUEDA_F32), second(b, RUEDA_F32), third(c, RUEDA_F32);
    const rueda_tensor tensors[] = {*first.get(), *second.get(), *third.get()};
    const rueda_op_options options = named("g");
    rueda_handle handle = 0;
    expect_code(rueda_grouped_allreduce_async(session, rank == 0 ? 3 : 2, tensors, tensors, nullptr, RUEDA_SUM,
                                              &options, &handle),
                RUEDA_OK, "group");
    const Ending ending = finish(handle);
    expect(ending.code == RUEDA_MISMATCH, "a group of 3 met one of 2: " + ending.sentence);
    sentences[static_cast<size_t>(rank)] = ending.sentence;
    expect_usable(session, "after a group mismatch");
  });
  CHECK(sentences[0] == sentences[1]);
}

TEST_CASE("thousands of failing operations leave the session usable") {
  constexpr int kFailures = core::kThorough ? 10000 : 2000;
  run_ranks(2, [](rueda_session* session, int rank) {
    std::vector<float> values(static_cast<size_t>(rank) + 1);
    for (int i = 0; i < kFailures; ++i) {
      const rueda_handle handle = start_sum(session, values, "w");
      expect(handle != 0, rueda_last_error());
      expect(finish(handle).code == RUEDA_MISMATCH, "a sum of [1] and [2] did not fail");
    }
    expect_usable(session, "afterwards");
  });
}

}  // namespace rueda::test
