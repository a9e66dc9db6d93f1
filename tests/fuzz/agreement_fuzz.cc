// libFuzzer over every function of agreement that takes a frame:
//
//   bin/agreement_fuzz [libFuzzer's options and corpus]
//   bin/agreement_fuzz --record     runs a job of its own and prints the frames as inputs, a line each in hexadecimal
//
// The first byte picks the machine and its story; what follows is cut into frames by a length byte each, so that the
// fuzzer can build up state. Without frames of real jobs it finds few that name a tensor which both ends know.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/fuzz/agreement_job.h"
#include "tests/fuzz/targets.h"

namespace rueda::fuzz {
namespace {

using namespace rueda::core;

/// Stops at the first frame that `take` refuses. Returns whether there was none.
template <typename Take>
bool each_frame(Bytes rest, Take take) {
  while (!rest.empty()) {
    const size_t length = std::min<size_t>(std::to_integer<size_t>(rest[0]), rest.size() - 1);
    std::vector<std::byte> frame{std::byte{0}};  // the epoch
    frame.insert(frame.end(), rest.begin() + 1, rest.begin() + 1 + static_cast<std::ptrdiff_t>(length));
    rest = rest.subspan(1 + length);
    if (!take(frame)) return false;
  }
  return true;
}

bool arbitrate(Bytes rest) {
  Arbiter arbiter(agreement_config());
  int rank = 0;
  return each_frame(rest, [&](const std::vector<std::byte>& frame) {
    rank = 1 - rank;
    const bool ok = arbiter.receive(rank, frame).ok();
    arbiter.plan();
    return ok;
  });
}

bool participate(size_t story, Bytes rest) {
  AgreementConfig config = agreement_config();
  config.rank = 1;
  Participant participant(config);
  size_t phase = 0;
  act(story, phase, config.rank, participant);
  return each_frame(rest, [&](const std::vector<std::byte>& frame) {
    if (frame.size() == 1) {
      if (++phase < kPhases) act(story, phase, config.rank, participant);
      return true;
    }
    return participant.receive(frame).ok();
  });
}

bool arbitrate_relayed(Bytes rest) {
  AgreementConfig config = agreement_config();
  config.relayed = true;
  Arbiter arbiter(config);
  return each_frame(rest, [&](const std::vector<std::byte>& frame) {
    const bool ok = arbiter.receive_relayed(frame).ok();
    arbiter.plan();
    while (!arbiter.take_addressed().empty()) {
    }
    return ok;
  });
}

/// Frames come in turn from a rank, from a relay below and from above.
bool relay(Bytes rest) {
  Relay top(relay_at_top(agreement_config()));
  size_t turn = 0;
  return each_frame(rest, [&](const std::vector<std::byte>& frame) {
    const size_t from = turn++ % 3;
    const bool ok = (from < 2 ? top.from_below(from, frame) : top.from_above(frame)).ok();
    top.acknowledged();
    static_cast<void>(top.take_up());
    for (const size_t child : {size_t{0}, size_t{1}}) static_cast<void>(top.take_down(child));
    return ok;
  });
}

/// Returns whether the machine took all frames.
bool take(Bytes bytes) {
  if (bytes.empty()) return true;
  const size_t choice = std::to_integer<size_t>(bytes[0]);
  switch (static_cast<Machine>(choice % kMachines)) {
    case Machine::kArbiter: return arbitrate(bytes.subspan(1));
    case Machine::kParticipant: return participate(choice / kMachines % kStories, bytes.subspan(1));
    case Machine::kRelayedArbiter: return arbitrate_relayed(bytes.subspan(1));
    default: return relay(bytes.subspan(1));
  }
}

/// A recorded frame that the fuzzed machine refuses leads nowhere, so that is an error.
[[noreturn]] void record() {
  for (const std::vector<std::byte>& input : recorded_inputs()) {
    for (const std::byte one : input) std::printf("%02x", std::to_integer<unsigned>(one));
    std::puts("");
    if (take(input)) continue;
    std::fputs("agreement_fuzz: a machine refuses a frame of this input\n", stderr);
    std::exit(1);
  }
  std::exit(0);
}

}  // namespace
}  // namespace rueda::fuzz

extern "C" int LLVMFuzzerInitialize(int* count, char*** words) {
  for (int i = 1; i < *count; ++i) {
    if (std::strcmp((*words)[i], "--record") == 0) rueda::fuzz::record();
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static_cast<void>(rueda::fuzz::take(std::as_bytes(std::span(data, size))));
  return 0;
}
