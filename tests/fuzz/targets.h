#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rueda::fuzz {

using Bytes = std::span<const std::byte>;

/// One parser of bytes from outside. `take` gives it any bytes and aborts if a promise of its header does not hold.
struct Target {
  const char* name;
  void (*take)(Bytes bytes);
};

/// The parsers of each room. Null in a program without the room.
[[gnu::weak]] std::span<const Target> store_targets();
[[gnu::weak]] std::span<const Target> engine_targets();
[[gnu::weak]] std::span<const Target> net_targets();
[[gnu::weak]] std::span<const Target> local_targets();
[[gnu::weak]] std::span<const Target> launcher_targets();
[[gnu::weak]] std::span<const Target> cuda_targets();

inline std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// Aborts the program if a promise does not hold, so that libFuzzer keeps the input.
inline void hold(bool promise) {
  if (!promise) __builtin_trap();
}

/// What was decoded must survive the way out and in again: the second encoding equals the first one.
template <typename Encode, typename Decode, typename Decoded>
void hold_round_trip(const Decoded& decoded, Encode encode, Decode decode) {
  const auto once = encode(decoded);
  const auto again = decode(once);
  if constexpr (requires { again.ok(); }) {
    hold(again.ok());
    hold(encode(again.value()) == once);
  } else {
    hold(again.has_value());
    hold(encode(*again) == once);
  }
}

}  // namespace rueda::fuzz
