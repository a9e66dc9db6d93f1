#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "runtime/agreement/request.h"
#include "runtime/base/dtype.h"
#include "runtime/base/slot.h"
#include "runtime/base/store_hint.h"

namespace rueda::core {

/// A batch as the selector sees it. Only rank 0 selects, and its verdict carries the answer, so each field is one that
/// rank 0 knows for all ranks.
struct BatchShape {
  OpKind kind = OpKind::kAllreduce;
  Dtype dtype = Dtype::kF32;
  ReduceOp op = ReduceOp::kSum;
  CodecId codec = CodecId::kNone;
  int32_t device = -1;  ///< -1: host memory
  uint64_t bytes = 0;   ///< of all tensors together, before the codec
  uint64_t tensors = 1;
  bool shared = false;  ///< every tensor lies in shared memory on every rank
  int ranks = 1;
  bool one_host = true;                     ///< all ranks share memory
  int hosts = 1;                            ///< number of hosts that the ranks lie on
  int largest_host = 1;                     ///< number of ranks on the host that has most of them
  uint64_t slot_bytes = kDefaultSlotBytes;  ///< of the lanes' shared memory; no chunk is longer
  bool deterministic = false;
  SetId set = kGlobalSet;  ///< the process set that runs it
  size_t absent = 0;       ///< members that have joined and contribute nothing
};

/// Stands for an algorithm in reports if a device's engine has run the batch. No table of algorithms is that long.
inline constexpr uint8_t kEngineAlgorithm = 255;

/// The algorithm that a batch runs with, and its plan, as they travel in a verdict.
struct AlgorithmChoice {
  uint8_t algorithm = 0;     ///< index in the table of algorithms
  uint32_t chunk_bytes = 0;  ///< on the wire, after the codec; 0 if the algorithm has no chunks
  uint64_t stamps = 2;       ///< number of stamps the batch takes: its chunks plus 2
  Stores stores = Stores::kByDistance;
  uint64_t trial = 0;  ///< not 0: the set's lowest member reports under this number how long the batch took
  /// The engine of the tensors' device runs it if all members can use that; else the algorithm does, on copies.
  bool on_engine = false;
  bool sleeps = false;     ///< members sleep as soon as they must wait for each other, instead of spinning first
  uint8_t lane_slots = 0;  ///< how many slots of its lane the batch uses in turn; 0: all
  uint8_t sockets = 0;     ///< how many to a peer it uses, 2 to 16; 0: what the settings say, or one
};

/// One way to run a batch, without what its plan adds for the batch's size.
struct Variant {
  uint8_t algorithm = 0;
  uint8_t chunk_shift = 0;  ///< chunks are planned for slots of `slot_bytes` >> `chunk_shift`
  Stores stores = Stores::kByDistance;
  bool sleeps = false;     ///< as in AlgorithmChoice
  uint8_t lane_slots = 0;  ///< as in AlgorithmChoice
  uint8_t sockets = 0;     ///< as in AlgorithmChoice
  friend bool operator==(const Variant&, const Variant&) = default;
};

/// How long the batch of one trial took, until the last member on the host of the set's lowest member ended.
struct TrialTime {
  uint64_t trial = 0;
  std::chrono::nanoseconds took{0};
  Distance distance = Distance::kUnknown;  ///< of the set's cores, as that member knows it
};

}  // namespace rueda::core
