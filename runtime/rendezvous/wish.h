#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/rendezvous/epoch_plan.h"
#include "runtime/store/job_key.h"

namespace rueda::core {

/// Changes with every change of the wire formats between ranks.
inline constexpr uint32_t kProtocolNumber = 7;

/// A rank's wish to take part in the next epoch: everything that rank 0 needs to know of it. Across protocols only
/// `protocol`, `build` and `nonce` are readable; the rest is then empty.
struct Wish {
  uint32_t protocol = kProtocolNumber;
  std::string build;
  std::string nonce;  ///< names the key of the answer
  int rank = 0;
  int size = 1;
  std::string key_mark;  ///< `key_mark` of its job key; empty if it has none
  Endpoint endpoint;
  std::string agreed;        ///< `print_agreed` of its settings
  std::string process_sets;  ///< as in FormOptions
  std::string unfit;         ///< why this rank cannot take part; empty if it can
};

/// What rank 0 publishes once all ranks have come.
struct World {
  std::vector<Endpoint> ranks;
  std::string agreed;  ///< rank 0's
  JobKey key;          ///< present only if no rank has a key, so the store carries one
};

/// The ranks with which one rank could not share memory.
struct LocalReport {
  Status status;  ///< if not ok, this rank cannot take part and the epoch fails
  struct Failure {
    int rank;  ///< the reporting rank itself if it can share memory with no other
    std::string reason;
  };
  std::vector<Failure> failures;
};

std::string encode(const Wish& wish);
std::string encode(const World& world);
std::string encode(const LocalReport& report);
/// Encodes a status, and numbers if it is ok: an epoch, or the hosts by rank.
std::string encode(const Status& status, const std::vector<uint64_t>& numbers);

/// Decoding returns kMismatch if the bytes are another kind of record or break a limit.
Result<Wish> decode_wish(std::string_view bytes);
Result<World> decode_world(std::string_view bytes);
Result<LocalReport> decode_local_report(std::string_view bytes);
/// Returns the numbers, or the status that was sent, or kMismatch.
Result<std::vector<uint64_t>> decode_numbers(std::string_view bytes);

}  // namespace rueda::core
