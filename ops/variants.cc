// Which variants there are to try for a batch:
//
//   what the selector takes ─┬─ canonical: the others of kRivals that may serve ─┐
//                            └─ not: itself only                                 ├─ x chunk lengths x kinds of stores
//                                                                                ┘
// The one that is the fastest of these is then tried with each way to wait and with fewer slots, and between hosts with
// more sockets: these change little between algorithms, so trying each with each would cost more than it finds.
//
// A shorter chunk is planned as if the slots were shorter: each algorithm derives its chunks and stamps from them.
// Lengths that come to the same plan count once.
#include "ops/variants.h"

#include <optional>
#include <string>
#include <string_view>

#include "ops/chunks.h"
#include "ops/packing.h"
#include "ops/select.h"

namespace rueda::core {
namespace {

/// Algorithms that may be faster than each other, by size and machine, and that give the same bits.
constexpr std::string_view kRivals[][2] = {{"shm_one_shot", "shm_two_shot"}, {"direct", "hierarchical"}};
/// A one-shot computes everything on every rank: longer than this it is not worth a trial.
constexpr uint64_t kLongestOneShotBytes = 256 << 10;
/// Shorter chunks cost more synchronisations than they can save.
constexpr uint64_t kShortestChunkBytes = 64 << 10;
constexpr uint8_t kMostShifts = 2;
/// Two chunks are under way at least: one is written while the other is read.
constexpr uint8_t kFewestSlots = 2;
/// More sockets to a peer than one. Four flows fill what one fills to a quarter; more would rather crowd out others.
constexpr uint8_t kSocketCounts[] = {2, 4};
/// A batch that brings a peer less has too few frames for several sockets to share.
constexpr uint64_t kLeastStripedBytes = 512 << 10;
/// So many peers fill the wire with one socket each, and further ones to more peers would take many descriptors.
constexpr int kMostStripedPeers = 8;

std::string_view rival_of(std::string_view name) {
  for (const auto& [one, other] : kRivals) {
    if (name == one) return other;
    if (name == other) return one;
  }
  return {};
}

bool worth_trying(const Algorithm& algorithm, const BatchShape& shape) {
  return std::string_view(algorithm.name) != "shm_one_shot" || wire_bytes(shape) <= kLongestOneShotBytes;
}

/// Whether the algorithm writes memory that another core reads: the shared slots of a host.
bool stores_for_peers(const Algorithm& algorithm) {
  const std::string_view name = algorithm.name;
  return name.starts_with("shm_") || name.starts_with("hierarchical");
}

/// Whether more sockets to a peer may pay, and the settings leave their number open.
bool stripes(const Algorithm& algorithm, const Settings& settings, const BatchShape& shape) {
  const std::string_view name = algorithm.name;
  if (settings.sockets_per_peer != 0 || shape.one_host || shape.hosts < 2 || name.starts_with("shm_")) return false;
  const int peers = name.starts_with("hierarchical") ? shape.hosts - 1 : shape.ranks - 1;
  const auto sharers = static_cast<uint64_t>(shape.ranks);
  return peers <= kMostStripedPeers && wire_bytes(shape) / sharers >= kLeastStripedBytes;
}

/// The length of a chunk means nothing while there is one only.
bool alike(const AlgorithmChoice& one, const AlgorithmChoice& other) {
  return one.chunk_bytes == other.chunk_bytes || (is_one_chunk(one) && is_one_chunk(other));
}

/// The algorithm with each length of chunk, then each kind of store.
void add_all(std::span<const Algorithm> table, const Settings& settings, const BatchShape& shape, uint8_t index,
             std::vector<Variant>& variants) {
  const Algorithm& algorithm = table[index];
  const bool chunks_vary = algorithm.canonical && settings.chunk_bytes == 0;
  std::vector<Stores> kinds = {settings.stores};
  if (settings.stores == Stores::kByDistance && stores_for_peers(algorithm)) {
    kinds = {Stores::kPlain, Stores::kNonTemporal};
  }
  std::optional<AlgorithmChoice> planned;
  const uint8_t most = chunks_vary ? kMostShifts : 0;
  for (uint8_t shift = 0; shift <= most; ++shift) {
    if (shift > 0 && shape.slot_bytes >> shift < kShortestChunkBytes) break;
    const auto plan = plan_variant(table, settings, shape, {index, shift, settings.stores, false, 0});
    if (!plan.ok() || (planned && alike(*planned, plan.value()))) continue;
    planned = plan.value();
    for (const Stores stores : kinds) {
      variants.push_back(
          {index, shift, stores, settings.waits == Waits::kSleep, static_cast<uint8_t>(settings.lane_slots)});
    }
  }
}

}  // namespace

std::vector<Variant> variants_of(std::span<const Algorithm> table, const Settings& settings, const BatchShape& shape) {
  std::vector<Variant> variants;
  const auto usual = select_algorithm(table, settings, shape);
  if (!usual.ok()) return variants;
  const uint8_t index = usual.value().algorithm;
  add_all(table, settings, shape, index, variants);
  if (!table[index].canonical || !chooses_freely(settings, shape)) return variants;
  const std::string_view rival = rival_of(table[index].name);
  for (size_t i = 0; i < table.size() && !rival.empty(); ++i) {
    if (table[i].kind != shape.kind || table[i].name != rival || !worth_trying(table[i], shape)) continue;
    add_all(table, settings, shape, static_cast<uint8_t>(i), variants);
  }
  return variants;
}

std::vector<Variant> refinements_of(std::span<const Algorithm> table, const Settings& settings, const BatchShape& shape,
                                    const Variant& variant) {
  std::vector<Variant> variants = {variant};
  const auto plan = plan_variant(table, settings, shape, variant);
  if (!plan.ok()) return variants;
  const Algorithm& algorithm = table[variant.algorithm];
  const uint64_t chunks = plan.value().stamps - 2;
  const bool on_host = stores_for_peers(algorithm);
  const bool slots_vary = on_host && settings.lane_slots == 0 && chunks > kFewestSlots;
  const bool waits_vary = on_host && settings.waits == Waits::kChosen;
  const auto add = [&](bool sleeps, uint8_t slots) {
    Variant refined = variant;
    refined.sleeps = sleeps;
    refined.lane_slots = slots;
    variants.push_back(refined);
  };
  if (slots_vary) add(variant.sleeps, kFewestSlots);
  if (waits_vary) add(true, variant.lane_slots);
  if (slots_vary && waits_vary) add(true, kFewestSlots);
  if (!stripes(algorithm, settings, shape)) return variants;
  for (const uint8_t sockets : kSocketCounts) {
    Variant refined = variant;
    refined.sockets = sockets;
    variants.push_back(refined);
  }
  return variants;
}

Result<AlgorithmChoice> plan_variant(std::span<const Algorithm> table, const Settings& settings,
                                     const BatchShape& shape, const Variant& variant) {
  if (variant.algorithm >= table.size()) {
    return Status(Code::kUnsupported, "there is no algorithm " + std::to_string(variant.algorithm));
  }
  BatchShape planned = with_chunk_limit(shape, settings);
  planned.slot_bytes >>= variant.chunk_shift;
  const Algorithm& algorithm = table[variant.algorithm];
  const std::string reason = obstacle(algorithm, planned, settings);
  if (!reason.empty()) return Status(Code::kUnsupported, std::string(algorithm.name) + " " + reason);
  AlgorithmChoice choice = algorithm.plan(planned);
  choice.algorithm = variant.algorithm;
  choice.stores = variant.stores;
  choice.sleeps = variant.sleeps;
  choice.lane_slots = variant.lane_slots;
  choice.sockets = variant.sockets;
  return choice;
}

}  // namespace rueda::core
