// Ranks that submit different things under one name: one sentence for all, and everything stays usable.
#include <catch2/catch.hpp>
#include <mutex>
#include <string>
#include <vector>

#include "tests/bindings/submission.h"
#include "tests/support/leftovers.h"
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

namespace {

/// A group of this kind, of so many tensors of two elements each, which hold `value`; named as "g.0" and so on, or not.
Ending run_group(rueda_session* session, Kind kind, size_t count, const char* name, std::vector<float>& values) {
  std::vector<rueda_tensor> tensors;
  const std::vector<int64_t> shape = {2};
  for (size_t i = 0; i < count; ++i) {
    tensors.push_back(*CTensor(values.data() + 2 * i, RUEDA_F32, shape).get());
    tensors.back().shape = shape.data();
  }
  const rueda_op_options options = named(name);
  rueda_handle handle = 0;
  int32_t code = RUEDA_UNSUPPORTED;
  const rueda_tensor* const all = tensors.data();
  switch (kind) {
    case Kind::kAllreduce:
      code = rueda_grouped_allreduce_async(session, count, all, all, nullptr, RUEDA_SUM, &options, &handle);
      break;
    case Kind::kBroadcast:
      code = rueda_grouped_broadcast_async(session, count, all, all, nullptr, 0, &options, &handle);
      break;
    case Kind::kReducescatter:
      code = rueda_grouped_reducescatter_async(session, count, all, nullptr, nullptr, RUEDA_SUM, &options, &handle);
      break;
    case Kind::kReduce:
      code = rueda_grouped_reduce_async(session, count, all, all, nullptr, RUEDA_SUM, 0, &options, &handle);
      break;
    case Kind::kAllgather:
      code = rueda_grouped_allgather_async(session, count, all, nullptr, nullptr, &options, &handle);
      break;
    case Kind::kAlltoall:
      code = rueda_grouped_alltoall_async(session, count, all, nullptr, nullptr, nullptr, &options, &handle);
      break;
    case Kind::kGather:
      code = rueda_grouped_gather_async(session, count, all, nullptr, nullptr, 0, &options, &handle);
      break;
    case Kind::kScatter:
      code = rueda_grouped_scatter_async(session, count, all, nullptr, nullptr, nullptr, 0, &options, &handle);
      break;
    case Kind::kSend:
      code = rueda_rank(session) == 0 ? rueda_grouped_send_async(session, count, all, nullptr, 1, &options, &handle)
                                      : rueda_grouped_recv_async(session, count, all, nullptr, 0, &options, &handle);
      break;
    default: break;
  }
  expect_code(code, RUEDA_OK, "group");
  return finish(handle);
}

}  // namespace

TEST_CASE("after groups of different sizes ranks are in step, of every kind, with names and without, cached or not") {
  run_ranks(2, [](rueda_session* session, int rank) {
    for (const Kind kind : kAllKinds) {
      if (kind == Kind::kBarrier) continue;
      for (const bool with_names : {true, false}) {
        const std::string name = std::string(name_of(kind)) + ".g";
        const char* const given = with_names ? name.c_str() : nullptr;
        std::vector<float> values(6, 1);
        for (int turn = 0; turn < 2; ++turn) {
          const std::string where = name + (with_names ? "" : " without names") + (turn == 0 ? "" : ", cached");
          for (int wrong = 0; wrong < 2; ++wrong) {
            const Ending ending = run_group(session, kind, rank == wrong ? 2 : 3, given, values);
            expect(ending.code == RUEDA_MISMATCH, where + ": " + ending.sentence);
          }
          const Ending ending = run_group(session, kind, 3, given, values);
          expect(ending.code == RUEDA_OK, where + ", the right one: " + ending.sentence);
          for (int step = 1; step <= 3; ++step) {
            std::vector<float> value(1, static_cast<float>(step));
            expect_code(sum(session, value, nullptr), RUEDA_OK, where);
            expect(value[0] == static_cast<float>(2 * step), where + ": ranks are out of step");
          }
        }
      }
    }
  });
}

TEST_CASE("thousands of failing operations leave the session usable, and nothing grows") {
  constexpr int kFailures = core::kThorough ? 10000 : 2000;
  run_ranks(2, [](rueda_session* session, int rank) {
    std::vector<float> values(static_cast<size_t>(rank) + 1);
    size_t before = 0;
    for (int i = 0; i < kFailures; ++i) {
      if (i == kFailures / 10) before = holdings().resident_kib;
      const rueda_handle handle = start_sum(session, values, "w");
      expect(handle != 0, rueda_last_error());
      expect(finish(handle).code == RUEDA_MISMATCH, "a sum of [1] and [2] did not fail");
    }
    const size_t after = holdings().resident_kib;  // of both ranks, which are one process here
    // 300 bytes for each failure would be twice that; sanitizers keep what is freed.
    expect(!core::kThorough || after < before + 1500,
           "grew from " + std::to_string(before) + " to " + std::to_string(after) + " KiB");
    expect_usable(session, "afterwards");
  });
}

}  // namespace rueda::test
