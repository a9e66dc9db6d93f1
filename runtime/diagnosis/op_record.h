#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/base/deadline.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

namespace rueda::core {

/// How far an operation has come on this rank.
enum class OpState : uint8_t {
  kEnqueued = 0,  ///< taken from the caller
  kProposed = 1,  ///< this rank has told rank 0
  kAgreed = 2,    ///< in a batch: all members have it
  kStarted = 3,   ///< its batch runs here
  kLaunched = 4,  ///< its batch is launched on a device, which has not finished it
  kFinished = 5,
  kFailed = 6,
};
inline constexpr int kOpStates = 7;
/// "enqueued" and so on.
const char* name_of(OpState state);

/// What records show of an operation as the caller submitted it.
struct OpFacts {
  std::string_view name;  ///< empty: unnamed
  uint32_t set = 0;
  OpKind kind = OpKind::kAllreduce;
  Dtype dtype = Dtype::kF32;
  int64_t count = 0;
  uint64_t bytes = 0;
};

/// One tensor of one rank, as its flight recorder remembers it. A value.
struct OpRecord {
  static constexpr size_t kNameBytes = 96;
  static constexpr uint64_t kNoBatch = UINT64_MAX;

  uint64_t number = 0;  ///< counts the tensors of the rank, of all sets, from 1
  uint32_t set = 0;
  OpKind kind = OpKind::kAllreduce;
  Dtype dtype = Dtype::kF32;
  OpState state = OpState::kEnqueued;
  Code error = Code::kOk;
  uint8_t algorithm = 0;  ///< index in the table of algorithms; meaningful once it is in a batch
  uint8_t name_bytes = 0;
  int64_t count = 0;
  uint64_t bytes = 0;
  uint64_t batch = kNoBatch;                              ///< its number in the set
  std::array<SteadyClock::time_point, kOpStates> when{};  ///< by state; the clock's epoch if not reached
  std::array<char, kNameBytes> name_text{};               ///< the end of a longer name, which tells tensors apart

  std::string_view name() const { return {name_text.data(), name_bytes}; }
  bool over() const { return state >= OpState::kFinished; }
  void reach(OpState next, SteadyClock::time_point now) {
    state = next;
    when[static_cast<size_t>(next)] = now;
  }
};

}  // namespace rueda::core
