// What the engine reads of other ranks' frames beside the agreement (agreement_fuzz.cc has that), and what tools read:
// timelines, inquiries, reports of late batches, frames by way of other ranks, the end of an epoch, and dumps.
#include "runtime/diagnosis/dump.h"
#include "runtime/diagnosis/timeline_record.h"
#include "runtime/engine/end_frame.h"
#include "runtime/engine/inquiry.h"
#include "runtime/engine/late_batch.h"
#include "runtime/engine/routed_frame.h"
#include "runtime/engine/timeline_frames.h"
#include "runtime/engine/tune_file.h"
#include "tests/fuzz/targets.h"

namespace rueda::fuzz {
namespace {

using namespace rueda::core;

constexpr int kFrom = 3;
constexpr int kSize = 5;

void fuzz_end(Bytes bytes) { hold(!decode_end(bytes, kFrom).ok()); }

void fuzz_ask(Bytes bytes) {
  const auto ask = decode_ask(bytes, kFrom);
  if (!ask.ok()) return hold(ask.status().rank() == kFrom);
  hold_round_trip(
      ask.value(), [](const Ask& one) { return encode_ask(one); },
      [](const std::vector<std::byte>& frame) { return decode_ask(frame, kFrom); });
}

void fuzz_answer(Bytes bytes) {
  const auto answer = decode_answer(bytes, kFrom);
  if (!answer.ok()) return hold(answer.status().rank() == kFrom);
  hold(answer.value().text.size() <= kMaxAnswerBytes);
}

void fuzz_late(Bytes bytes) {
  const auto late = decode_late(bytes, kFrom, kSize);
  if (!late.ok()) return hold(late.status().rank() == kFrom);
  for (const int rank : late.value().ranks) hold(rank >= 0 && rank < kSize);
}

void fuzz_routed(Bytes bytes) {
  const auto frame = decode_routed(bytes, kSize);
  if (!frame) return;
  for (const int rank : {frame->origin, frame->destination}) hold(rank >= 0 && rank < kSize);
  hold(frame->body.size() < bytes.size());
  hold_round_trip(
      *frame, [](const RoutedFrame& one) { return encode_routed(one); },
      [](const std::vector<std::byte>& again) { return decode_routed(again, kSize); });
}

void fuzz_timeline(Bytes bytes) {
  size_t taken = 0;
  read_records(bytes, std::chrono::nanoseconds(7), [&taken](const TimelineRecord&) { ++taken; });
  hold(taken <= bytes.size());
}

void fuzz_timeline_frames(Bytes bytes) {
  if (bytes.empty()) return;
  const Bytes body = bytes.subspan(1);
  switch (std::to_integer<unsigned>(bytes[0]) % 4) {
    case 0: return static_cast<void>(decode_timeline_switch(body, kFrom));
    case 1: return static_cast<void>(decode_timeline_piece(body, kFrom));
    case 2: return static_cast<void>(decode_clock_ask(body, kFrom));
    default: return static_cast<void>(decode_clock_answer(body, kFrom));
  }
}

void fuzz_tune_file(Bytes bytes) {
  const auto file = tune_file_from_json(text_of(bytes));
  if (!file.ok()) return;
  hold(file.value().choices.size() <= kMostTunedChoices);
  for (const NamedChoice& named : file.value().choices)
    hold(named.choice.time > 0 && named.choice.variant.chunk_shift < 8 && named.choice.variant.sockets <= 16 &&
         named.choice.variant.sockets != 1);
  hold_round_trip(
      file.value(), [](const TuneFile& one) { return to_json(one); },
      [](const std::string& text) { return tune_file_from_json(text); });
}

void fuzz_dump(Bytes bytes) {
  const auto dump = dump_from_json(text_of(bytes));
  if (!dump.ok()) return;
  hold(dump_from_json(to_json(dump.value())).ok());
  hold_round_trip(
      dump.value(), [](const RankDump& one) { return to_json(one); },
      [](const std::string& text) { return dump_from_json(text); });
}

constexpr Target kEngineTargets[] = {
    {"end", fuzz_end},           {"ask", fuzz_ask},
    {"answer", fuzz_answer},     {"late", fuzz_late},
    {"timeline", fuzz_timeline}, {"timeline_frames", fuzz_timeline_frames},
    {"dump", fuzz_dump},         {"tune_file", fuzz_tune_file},
    {"routed", fuzz_routed},
};

}  // namespace

std::span<const Target> engine_targets() { return kEngineTargets; }

}  // namespace rueda::fuzz
