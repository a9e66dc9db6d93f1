// Chooses the algorithm of a batch. Only rank 0 does, and its verdict carries the answer; so every input of the choice
// is something that rank 0 knows for all ranks.
//
//   forced by a setting?  ─yes─▶ may it serve? ─no─▶ error with the reason
//           │ no
//   preferred for this shape: may it serve? ─yes─▶ take it
//           │ no
//   the first of the table that may serve ─none─▶ error
//
// Whether an algorithm may serve is decided in one function, `find_obstacle`. `obstacle` puts what it finds into words:
// for a forced algorithm they are the error sentence. All other choices need no words, and are made for each batch.
#include "ops/select.h"

#include <algorithm>
#include <bit>
#include <string_view>

#include "ops/packing.h"
#include "runtime/base/reduction.h"

namespace rueda::core {

namespace {

constexpr std::string_view kAuto = "auto";

/// Inputs of all ranks together up to which a one-shot is faster. Each of its ranks reads all inputs, one of a two-shot
/// only two slices' worth, at the price of one more synchronisation.
constexpr uint64_t kOneShotInputBytes = 128 << 10;
/// From here on tensors in shared memory are used where they lie: it takes two synchronisations, and saves the copies.
constexpr uint64_t kSharedBytes = 32 << 10;
/// Up to here a batch over channels is all latency, and doubling has the fewest steps.
constexpr uint64_t kDoublingBytes = 16 << 10;
/// From here on two levels, which cost two more synchronisations, save more on the network than they cost.
constexpr uint64_t kHierarchicalBytes = 64 << 10;

const std::string* forced_algorithm(const Settings& settings, OpKind kind) {
  switch (kind) {
    case OpKind::kAllreduce: return &settings.allreduce_algorithm;
    case OpKind::kBroadcast: return &settings.broadcast_algorithm;
    default: return nullptr;
  }
}

/// The two-level algorithms, which RUEDA_HIERARCHICAL_ALLREDUCE and RUEDA_HIERARCHICAL_ALLGATHER force or forbid.
constexpr std::string_view kByHost = "hierarchical";
constexpr std::string_view kByHostNarrow = "hierarchical_narrow";

constexpr std::string_view kInPlace = "shm_shared";
constexpr std::string_view kGatherByHost = "hierarchical_allgather";

/// The setting that applies to the algorithm of this name; kAuto if it is not a two-level one.
Choice by_host_choice(std::string_view name, const Settings& settings) {
  if (name == kByHost || name == kByHostNarrow) return settings.hierarchical_allreduce;
  return name == kGatherByHost ? settings.hierarchical_allgather : Choice::kAuto;
}

/// What no algorithm could compute is an error of the caller, whatever else would be chosen.
Status check_reduction(const BatchShape& shape) {
  if (!reduces(shape.kind)) return {};
  std::string why = why_undefined(shape.op, shape.dtype);
  if (shape.op == ReduceOp::kAdasum && shape.kind != OpKind::kAllreduce) why = "adasum is an all-reduce's operator";
  return why.empty() ? Status()
                     : Status(Code::kInvalidArgument, std::string(name_of(shape.kind)).append(": ").append(why));
}

int find_algorithm(std::span<const Algorithm> table, OpKind kind, std::string_view name) {
  for (size_t i = 0; i < table.size(); ++i) {
    if (table[i].kind == kind && table[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

std::string names_of(std::span<const Algorithm> table, OpKind kind) {
  std::string names;
  for (const Algorithm& algorithm : table) {
    if (algorithm.kind == kind) names += (names.empty() ? "" : ", ") + std::string(algorithm.name);
  }
  return names;
}

Status no_such_algorithm(std::span<const Algorithm> table, OpKind kind, const std::string& name) {
  return Status(Code::kInvalidArgument, "RUEDA_" + std::string(kind == OpKind::kBroadcast ? "BROADCAST" : "ALLREDUCE") +
                                            "_ALGORITHM=" + name + ": there is no such " + name_of(kind) +
                                            " algorithm; choose auto or one of " + names_of(table, kind));
}

AlgorithmChoice choose(std::span<const Algorithm> table, int index, const BatchShape& shape, const Settings& settings) {
  AlgorithmChoice choice = table[static_cast<size_t>(index)].plan(shape);
  choice.algorithm = static_cast<uint8_t>(index);
  choice.stores = settings.stores;
  choice.sleeps = settings.waits == Waits::kSleep;
  choice.lane_slots = static_cast<uint8_t>(settings.lane_slots);
  return choice;
}

/// Why an algorithm may not serve a shape.
enum class Obstacle { kNone, kKind, kAdasum, kOrder, kAverage, kForbidden, kShape };

Obstacle find_obstacle(const Algorithm& algorithm, const BatchShape& shape, const Settings& settings) {
  if (algorithm.kind != shape.kind) return Obstacle::kKind;
  if (algorithm.adasum != (shape.op == ReduceOp::kAdasum)) return Obstacle::kAdasum;
  const bool partial_sums = reduces(algorithm.kind) && !algorithm.canonical;
  if (partial_sums && (shape.deterministic || settings.deterministic)) return Obstacle::kOrder;
  if (partial_sums && shape.op == ReduceOp::kAverage && !is_float(part_of(shape.dtype))) return Obstacle::kAverage;
  if (by_host_choice(algorithm.name, settings) == Choice::kForbid) return Obstacle::kForbidden;
  return algorithm.fits(shape) ? Obstacle::kNone : Obstacle::kShape;
}

bool serves(std::span<const Algorithm> table, int index, const BatchShape& shape, const Settings& settings) {
  return index >= 0 && find_obstacle(table[static_cast<size_t>(index)], shape, settings) == Obstacle::kNone;
}

/// Whether tensors in shared memory are used where they lie. Of an exchange only its senders know the size.
bool runs_in_place(std::span<const Algorithm> table, const BatchShape& shape, const Settings& settings) {
  if (!shape.shared || (!exchanges(shape.kind) && shape.bytes < kSharedBytes)) return false;
  return serves(table, find_algorithm(table, shape.kind, kInPlace), shape, settings);
}

/// The algorithm to try first: the fastest if several can serve a shape. Empty if the first of the table that fits will
/// do.
std::string_view preferred_algorithm(std::span<const Algorithm> table, const BatchShape& shape,
                                     const Settings& settings) {
  if (runs_in_place(table, shape, settings)) return kInPlace;
  if (shape.kind == OpKind::kAllgather) return kGatherByHost;  // only its senders know its size
  if (shape.kind != OpKind::kAllreduce) return {};
  if (shape.one_host) {
    return wire_bytes(shape) * static_cast<uint64_t>(shape.ranks) <= kOneShotInputBytes ? "shm_one_shot"
                                                                                        : "shm_two_shot";
  }
  // The narrow one first: it fits 16-bit sums only, and moves half the bytes.
  if (settings.hierarchical_allreduce == Choice::kForce || wire_bytes(shape) >= kHierarchicalBytes) {
    for (const std::string_view name : {kByHostNarrow, kByHost}) {
      if (serves(table, find_algorithm(table, shape.kind, name), shape, settings)) return name;
    }
  }
  return wire_bytes(shape) <= kDoublingBytes ? "doubling" : "";
}

Result<AlgorithmChoice> choose_forced(std::span<const Algorithm> table, const Settings& settings,
                                      const BatchShape& shape, const std::string& name) {
  const int index = find_algorithm(table, shape.kind, name);
  if (index < 0) return no_such_algorithm(table, shape.kind, name);
  const std::string reason = obstacle(table[static_cast<size_t>(index)], shape, settings);
  if (reason.empty()) return choose(table, index, shape, settings);
  return Status(Code::kInvalidArgument, std::string(name_of(shape.kind)) + " algorithm \"" + name + "\" " + reason);
}

Status check_forced(std::span<const Algorithm> table, const Settings& settings, OpKind kind) {
  const std::string& name = *forced_algorithm(settings, kind);
  if (name == kAuto || find_algorithm(table, kind, name) >= 0) return {};
  return no_such_algorithm(table, kind, name);
}

}  // namespace

std::string obstacle(const Algorithm& algorithm, const BatchShape& shape, const Settings& settings) {
  switch (find_obstacle(algorithm, shape, settings)) {
    case Obstacle::kNone: return {};
    case Obstacle::kKind: return std::string("is not an algorithm for ") + name_of(shape.kind);
    case Obstacle::kAdasum: return algorithm.adasum ? "computes adasum only" : "does not compute adasum";
    case Obstacle::kOrder: return "adds in an order of its own, which deterministic mode does not allow";
    case Obstacle::kAverage:
      return std::string("moves partial sums and cannot average ") + name_of(shape.dtype) + " exactly";
    case Obstacle::kForbidden:
      return std::string("is forbidden by RUEDA_HIERARCHICAL_") +
             (algorithm.kind == OpKind::kAllgather ? "ALLGATHER=0" : "ALLREDUCE=0");
    case Obstacle::kShape: break;
  }
  return "cannot serve " + std::to_string(shape.bytes) + " bytes of " + name_of(shape.dtype) + " on " +
         std::to_string(shape.ranks) + (shape.one_host ? " ranks of one host" : " ranks of several hosts") +
         (shape.device >= 0 ? " in device memory"
          : shape.shared    ? " in shared memory"
                            : "");
}

Result<AlgorithmChoice> select_algorithm(std::span<const Algorithm> table, const Settings& settings,
                                         const BatchShape& given) {
  RUEDA_RETURN_IF_ERROR(check_reduction(given));
  const BatchShape shape = with_chunk_limit(given, settings);
  const std::string* forced = forced_algorithm(settings, shape.kind);
  // A set of one rank and adasum have algorithms of their own: a setting meant for other sums must not stop them.
  const bool has_choice = shape.ranks > 1 && shape.op != ReduceOp::kAdasum;
  if (is_forced(settings, shape.kind) && has_choice && (shape.shared || *forced != kInPlace)) {
    return choose_forced(table, settings, shape, *forced);
  }
  const int preferred = find_algorithm(table, shape.kind, preferred_algorithm(table, shape, settings));
  if (serves(table, preferred, shape, settings)) return choose(table, preferred, shape, settings);
  for (int i = 0; i < static_cast<int>(table.size()); ++i) {
    if (serves(table, i, shape, settings)) return choose(table, i, shape, settings);
  }
  return Status(Code::kUnsupported, std::string("no algorithm of this build can serve ") + name_of(shape.kind) +
                                        " of " + std::to_string(shape.bytes) + " bytes of " + name_of(shape.dtype) +
                                        " on " + std::to_string(shape.ranks) + " ranks" +
                                        (shape.device < 0 ? "" : " in device memory"));
}

bool chooses_freely(const Settings& settings, const BatchShape& shape) {
  if (is_forced(settings, shape.kind)) return false;
  return shape.one_host || settings.hierarchical_allreduce == Choice::kAuto;
}

BatchShape with_chunk_limit(const BatchShape& shape, const Settings& settings) {
  BatchShape limited = shape;
  if (settings.chunk_bytes != 0) limited.slot_bytes = std::min(shape.slot_bytes, std::bit_floor(settings.chunk_bytes));
  return limited;
}

bool is_forced(const Settings& settings, OpKind kind) {
  const std::string* const name = forced_algorithm(settings, kind);
  return name != nullptr && *name != kAuto;
}

Status check_forced_algorithms(std::span<const Algorithm> table, const Settings& settings) {
  RUEDA_RETURN_IF_ERROR(check_forced(table, settings, OpKind::kAllreduce));
  return check_forced(table, settings, OpKind::kBroadcast);
}

}  // namespace rueda::core
