// libFuzzer over every function of agreement that takes a frame. The first byte picks the machine; what follows is cut
// into frames by a length byte each, so that the fuzzer can build up state. Run: bin/agreement_fuzz -max_len=4096
// corpus/
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/agreement/agreement.h"
#include "runtime/agreement/messages.h"
#include "runtime/agreement/relay.h"

namespace {

using rueda::core::AgreementConfig;

AgreementConfig make_config() {
  AgreementConfig config;
  config.size = 2;
  config.cache_capacity = 2;
  config.names.hosts = {"a", "a"};
  config.sets = {{0, {0, 1}, {2}, true}, {1, {1, 0}, {2}, true}};
  config.select = [](const rueda::core::BatchShape&) -> rueda::core::Result<rueda::core::AlgorithmChoice> {
    return rueda::core::AlgorithmChoice{};
  };
  config.timed = [](const rueda::core::TrialTime& time) {
    if (time.took < std::chrono::nanoseconds(0) || time.took > rueda::core::kMaxTrialTime) __builtin_trap();
  };
  return config;
}

template <typename Take>
void each_frame(std::span<const std::byte> rest, Take take) {
  while (!rest.empty()) {
    const size_t length = std::min<size_t>(std::to_integer<size_t>(rest[0]), rest.size() - 1);
    std::vector<std::byte> frame{std::byte{0}};  // the epoch
    frame.insert(frame.end(), rest.begin() + 1, rest.begin() + 1 + static_cast<std::ptrdiff_t>(length));
    rest = rest.subspan(1 + length);
    if (!take(frame)) return;
  }
}

void fuzz_relayed(AgreementConfig config, std::span<const std::byte> rest) {
  config.relayed = true;
  rueda::core::Arbiter arbiter(config);
  each_frame(rest, [&](const std::vector<std::byte>& frame) {
    const bool ok = arbiter.receive_relayed(frame).ok();
    arbiter.plan();
    while (!arbiter.take_addressed().empty()) {
    }
    return ok;
  });
}

/// Frames come in turn from a rank, from a relay below and from above.
void fuzz_relay(const AgreementConfig& config, std::span<const std::byte> rest) {
  using Kind = rueda::core::RelayConfig::Child::Kind;
  rueda::core::Relay relay({config.epoch, config.size, {{Kind::kRank, {0}}, {Kind::kRelay, {1}}}, config.sets});
  size_t turn = 0;
  each_frame(rest, [&](const std::vector<std::byte>& frame) {
    const size_t from = turn++ % 3;
    const bool ok = (from < 2 ? relay.from_below(from, frame) : relay.from_above(frame)).ok();
    relay.acknowledged();
    static_cast<void>(relay.take_up());
    for (const size_t child : {size_t{0}, size_t{1}}) static_cast<void>(relay.take_down(child));
    return ok;
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  AgreementConfig config = make_config();
  const std::span<const std::byte> rest = std::as_bytes(std::span(data, size)).subspan(1);
  if (data[0] % 4 == 2) return fuzz_relayed(config, rest), 0;
  if (data[0] % 4 == 3) return fuzz_relay(config, rest), 0;
  if (data[0] % 4 == 0) {
    rueda::core::Arbiter arbiter(config);
    int rank = 0;
    each_frame(rest, [&](const std::vector<std::byte>& frame) {
      rank = 1 - rank;
      const bool ok = arbiter.receive(rank, frame).ok();
      arbiter.plan();
      return ok;
    });
    return 0;
  }
  config.rank = 1;
  rueda::core::Participant participant(config);
  rueda::core::Request request;
  request.name = "w";
  participant.submit({&request, 1});
  each_frame(rest, [&](const std::vector<std::byte>& frame) { return participant.receive(frame).ok(); });
  return 0;
}
