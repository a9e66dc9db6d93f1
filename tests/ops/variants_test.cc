#include "ops/variants.h"

#include <catch2/catch.hpp>
#include <set>

#include "ops/select.h"

using namespace rueda::core;

namespace {

BatchShape sum_of(uint64_t bytes, int ranks = 2) {
  BatchShape shape;
  shape.bytes = bytes;
  shape.ranks = ranks;
  return shape;
}

BatchShape between_hosts(uint64_t bytes) {
  BatchShape shape = sum_of(bytes, 4);
  shape.one_host = false;
  shape.hosts = shape.largest_host = 2;
  return shape;
}

std::vector<Variant> variants(const BatchShape& shape, const Settings& settings = Settings()) {
  return variants_of(algorithms(), settings, shape);
}

std::set<std::string> names(const std::vector<Variant>& all) {
  std::set<std::string> found;
  for (const Variant& variant : all) found.insert(algorithms()[variant.algorithm].name);
  return found;
}

using Names = std::set<std::string>;

}  // namespace

TEST_CASE("A long sum on one host has three lengths of chunks in two kinds of stores") {
  const std::vector<Variant> all = variants(sum_of(64u << 20));
  CHECK(all.size() == 6);
  CHECK(names(all) == Names{"shm_two_shot"});
  std::set<uint32_t> chunks;
  for (const Variant& variant : all) {
    const AlgorithmChoice choice = plan_variant(algorithms(), Settings(), sum_of(64u << 20), variant).value();
    CHECK(choice.stores == variant.stores);
    CHECK(choice.stamps == (64u << 20) / choice.chunk_bytes + 2);
    chunks.insert(choice.chunk_bytes);
  }
  CHECK(chunks == std::set<uint32_t>{64u << 10, 128u << 10, 256u << 10});
}

TEST_CASE("One shot and two are tried where either may be faster") {
  CHECK(variants(sum_of(64u << 10)).size() == 4);  // one chunk each, in two kinds of stores
  CHECK(names(variants(sum_of(64u << 10))) == Names{"shm_one_shot", "shm_two_shot"});
  CHECK(names(variants(sum_of(256u << 10))) == Names{"shm_one_shot", "shm_two_shot"});
  CHECK(names(variants(sum_of(512u << 10))) == Names{"shm_two_shot"});
}

TEST_CASE("Only what keeps the bits is tried between hosts") {
  CHECK(names(variants(between_hosts(1u << 20))) == Names{"direct", "hierarchical"});
  BatchShape half = between_hosts(1u << 20);
  half.dtype = Dtype::kF16;
  CHECK(names(variants(half)) == Names{"hierarchical_narrow"});  // its sums round between hosts
  std::set<uint8_t> shifts;
  for (const Variant& variant : variants(half)) shifts.insert(variant.chunk_shift);
  CHECK(shifts == std::set<uint8_t>{0});
  half.deterministic = true;
  CHECK(names(variants(half)) == Names{"direct", "hierarchical"});
}

TEST_CASE("The fastest way is tried with fewer slots and with the other way to wait") {
  const auto refined = [](uint64_t bytes, const Settings& settings = Settings()) {
    const BatchShape shape = sum_of(bytes);
    const std::vector<Variant> all =
        refinements_of(algorithms(), settings, shape, variants_of(algorithms(), settings, shape).front());
    std::set<std::pair<bool, int>> found;
    for (const Variant& variant : all) {
      const AlgorithmChoice choice = plan_variant(algorithms(), settings, shape, variant).value();
      CHECK((choice.sleeps == variant.sleeps && choice.lane_slots == variant.lane_slots));
      found.emplace(choice.sleeps, choice.lane_slots);
    }
    CHECK(found.size() == all.size());
    return found;
  };
  using Found = std::set<std::pair<bool, int>>;
  CHECK(refined(4u << 20) == Found{{false, 0}, {false, 2}, {true, 0}, {true, 2}});
  CHECK(refined(64u << 10) == Found{{false, 0}, {true, 0}});  // of one chunk
  Settings settings;
  settings.lane_slots = 3;
  CHECK(refined(4u << 20, settings) == Found{{false, 3}, {true, 3}});
  settings.waits = Waits::kSleep;
  CHECK(refined(4u << 20, settings) == Found{{true, 3}});
  CHECK(select_algorithm(algorithms(), settings, sum_of(4u << 20)).value().sleeps);
  CHECK(select_algorithm(algorithms(), settings, sum_of(4u << 20)).value().lane_slots == 3);
  settings.waits = Waits::kSpin;
  CHECK(refined(4u << 20, settings) == Found{{false, 3}});
  const BatchShape flat = between_hosts(1u << 20);  // too short for several sockets
  for (const Variant& variant : variants(flat)) {
    const bool on_host = std::string(algorithms()[variant.algorithm].name) == "hierarchical";
    CHECK((refinements_of(algorithms(), Settings(), flat, variant).size() > 1) == on_host);
  }
}

TEST_CASE(
    "Long batches between hosts are tried with two and four sockets to a peer, unless a setting names their number") {
  const auto sockets = [](const BatchShape& shape, const Settings& settings = Settings()) {
    std::set<int> found;
    for (const Variant& variant : variants_of(algorithms(), settings, shape)) {
      for (const Variant& refined : refinements_of(algorithms(), settings, shape, variant)) {
        CHECK(plan_variant(algorithms(), settings, shape, refined).value().sockets == refined.sockets);
        found.insert(refined.sockets);
      }
    }
    return found;
  };
  using Found = std::set<int>;
  CHECK(sockets(between_hosts(2u << 20)) == Found{0, 2, 4});
  CHECK(sockets(between_hosts(1u << 20)) == Found{0});
  CHECK(sockets(sum_of(64u << 20)) == Found{0});
  BatchShape broadcast = between_hosts(2u << 20);
  broadcast.kind = OpKind::kBroadcast;
  CHECK(sockets(broadcast) == Found{0, 2, 4});
  BatchShape many = between_hosts(64u << 20);
  many.ranks = many.hosts = 10;
  many.largest_host = 1;
  CHECK(sockets(many) == Found{0});
  for (const int set : {1, 4}) {
    Settings settings;
    settings.sockets_per_peer = set;
    CHECK(sockets(between_hosts(2u << 20), settings) == Found{0});
  }
}

TEST_CASE("What a setting names is the same in all variants") {
  Settings settings;
  settings.stores = Stores::kPlain;
  for (const Variant& variant : variants(sum_of(64u << 20), settings)) CHECK(variant.stores == Stores::kPlain);
  CHECK(variants(sum_of(64u << 20), settings).size() == 3);
  settings.chunk_bytes = 128u << 10;
  CHECK(variants(sum_of(64u << 20), settings).size() == 1);
  const Variant only = variants(sum_of(64u << 20), settings).front();
  CHECK(plan_variant(algorithms(), settings, sum_of(64u << 20), only).value().chunk_bytes == 128u << 10);
  Settings named;
  named.allreduce_algorithm = "shm_one_shot";
  CHECK(names(variants(sum_of(64u << 10), named)) == Names{"shm_one_shot"});
  Settings flat;
  flat.hierarchical_allreduce = Choice::kForbid;
  CHECK(names(variants(between_hosts(1u << 20), flat)) == Names{"direct"});
  flat.hierarchical_allreduce = Choice::kForce;
  CHECK(names(variants(between_hosts(1u << 20), flat)) == Names{"hierarchical"});
}

TEST_CASE("Variants come to different plans, each in slots that hold it") {
  for (const OpKind kind : {OpKind::kAllreduce, OpKind::kReducescatter, OpKind::kReduce, OpKind::kBroadcast}) {
    for (uint64_t bytes = 16 << 10; bytes <= 1u << 30; bytes = bytes * 3 / 4096 * 4096) {
      BatchShape shape = sum_of(bytes, 4);
      shape.kind = kind;
      std::set<std::tuple<int, uint32_t, Stores>> plans;
      for (const Variant& variant : variants(shape)) {
        const AlgorithmChoice choice = plan_variant(algorithms(), Settings(), shape, variant).value();
        CHECK(choice.chunk_bytes <= shape.slot_bytes);
        CHECK(plans.emplace(choice.algorithm, choice.chunk_bytes, choice.stores).second);
      }
      CHECK(plans.size() >= 2);
    }
  }
}

TEST_CASE("A variant that cannot serve a shape is refused with the reason") {
  const Variant one_shot = variants(sum_of(64u << 10)).front();
  REQUIRE(std::string(algorithms()[one_shot.algorithm].name) == "shm_one_shot");
  const auto plan = plan_variant(algorithms(), Settings(), sum_of(64u << 20), one_shot);
  CHECK(plan.status().code() == Code::kUnsupported);
  CHECK(plan.status().sentence().find("shm_one_shot cannot serve 67108864 bytes") == 0);
  CHECK_FALSE(plan_variant(algorithms(), Settings(), sum_of(4), {255, 0, Stores::kPlain}).ok());
}
