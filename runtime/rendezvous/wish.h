#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/rendezvous/epoch_plan.h"
#include "runtime/store/job_key.h"

namespace rueda::core {

/// Changes with every change of what ranks say to each other.
inline constexpr uint32_t kProtocolNumber = 4;

/// A rank asks to take part in the next epoch: everything that rank 0 needs to know of it. Only `protocol` and `build`
/// are readable across different protocols; the rest is then empty.
struct Wish {
  uint32_t protocol = kProtocolNumber;
  std::string build;
  std::string nonce;  ///< where the answer goes
  int rank = 0;
  int size = 1;
  std::string key_mark;  ///< `key_mark` of its job key; empty: it holds none
  Endpoint endpoint;
  std::string agreed;        ///< `print_agreed` of its settings
  std::string process_sets;  ///< as in FormOptions
};

/// What rank 0 tells all once it has them together.
struct World {
  std::vector<Endpoint> ranks;
  std::string agreed;  ///< rank 0's
  JobKey key;          ///< present only when the store is to carry one: no rank has a key
};

/// Who shares memory with whom, as one rank found it.
struct LocalReport {
  Status status;  ///< not ok: this rank cannot take part, and no epoch comes of it
  struct Failure {
    int rank;
    std::string reason;
  };
  std::vector<Failure> failures;
};

std::string encode(const Wish& wish);
std::string encode(const World& world);
std::string encode(const LocalReport& report);
/// A status, and numbers where it is ok: an epoch, or hosts by rank.
std::string encode(const Status& status, const std::vector<uint64_t>& numbers);

/// kMismatch: the bytes are nothing of ours, or break a limit.
Result<Wish> decode_wish(std::string_view bytes);
Result<World> decode_world(std::string_view bytes);
Result<LocalReport> decode_local_report(std::string_view bytes);
/// The status that was sent, or that of the decoding.
Result<std::vector<uint64_t>> decode_numbers(std::string_view bytes);

}  // namespace rueda::core
