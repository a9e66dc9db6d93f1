// The protocol of runtime/net/doorbell.h in every interleaving, with a death at every step. What runs here is the code
// itself (`bell_steps`), over a bell whose operations are single steps of a model.
#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "runtime/net/doorbell.h"
#include "tests/support/scale.h"

namespace rueda::core {
namespace {

constexpr size_t kSleeper = 0;  // the ringers follow

/// One party. It is a function that is run again from the start for every step, with the results of its earlier steps;
/// the first step that has no result yet is the one that happens.
struct Party {
  std::vector<uint32_t> results;
  bool finished = false;
  bool dead = false;
  bool blocked = false;         ///< in FUTEX_WAIT
  bool looked_in_time = false;  ///< a ringer: when it read `asleep`, the sleeper's condition held
  bool can_step() const { return !finished && !dead && !blocked; }
  auto operator<=>(const Party&) const = default;
};

struct World {
  uint32_t count = 0;
  uint32_t asleep = 0;
  std::vector<uint32_t> data;
  std::vector<Party> parties;
  auto operator<=>(const World&) const = default;
};

using Readiness = std::function<bool(const std::vector<uint32_t>&)>;

/// Ends a replay after its one new step.
struct Paused {};

/// What `FutexBell` is to a thread. Each operation is one atomic step of the world.
class ModelBell {
 public:
  ModelBell(World& world, size_t party, const Readiness& condition)
      : world_(world), party_(world.parties[party]), condition_(condition) {}

  uint32_t count() {
    return step([&] { return world_.count; });
  }
  uint32_t asleep() {
    return step([&] {
      party_.looked_in_time = condition_(world_.data);
      return world_.asleep;
    });
  }
  void store_asleep(uint32_t value) {
    step([&] { return world_.asleep = value; });
  }
  void add_to_count() {
    step([&] { return ++world_.count; });
  }
  void wake() {
    step([&] {
      for (auto& party : world_.parties) party.blocked = false;
      return 0u;
    });
  }
  void wait(uint32_t seen) {
    step([&] {
      party_.blocked = world_.count == seen;
      return 0u;
    });
  }
  uint32_t read_data(size_t index) {
    return step([&] { return world_.data[index]; });
  }
  void store_data(size_t index) {
    step([&] { return world_.data[index] = 1; });
  }

 private:
  template <typename Operation>
  uint32_t step(Operation&& operation) {
    if (replayed_ < party_.results.size()) return party_.results[replayed_++];
    if (stepped_) throw Paused();
    stepped_ = true;
    ++replayed_;
    party_.results.push_back(operation());
    return party_.results.back();
  }

  World& world_;
  Party& party_;
  const Readiness& condition_;
  size_t replayed_ = 0;
  bool stepped_ = false;
};

/// The parties' programs, and what the sleeper waits for.
struct Protocol {
  std::function<void(ModelBell&, const std::function<bool()>& ready)> sleeper;
  std::function<void(ModelBell&, size_t index)> ringer;
};

struct Scenario {
  Protocol protocol;
  size_t ringers = 1;
  bool needs_all = false;  ///< the sleeper waits for all data words, else for any
};

/// Walks through all reachable worlds.
class Enumeration {
 public:
  explicit Enumeration(Scenario scenario) : scenario_(std::move(scenario)) {
    condition_ = [needs_all = scenario_.needs_all](const std::vector<uint32_t>& data) {
      size_t stored = 0;
      for (const uint32_t word : data) stored += word;
      return needs_all ? stored == data.size() : stored > 0;
    };
    World world;
    world.data.resize(scenario_.ringers);
    world.parties.resize(1 + scenario_.ringers);
    visit(world);
  }

  size_t worlds() const { return seen_.size(); }
  size_t ends() const { return ends_; }
  /// Ends in which the sleeper sleeps although a ringer that lives has looked after the condition held.
  size_t lost_wakeups() const { return lost_; }

 private:
  void visit(const World& world) {
    if (!seen_.insert(world).second) return;
    bool moved = false;
    for (size_t party = 0; party < world.parties.size(); ++party) {
      if (world.parties[party].can_step()) {
        moved = true;
        visit(stepped(world, party));
      }
      if (!world.parties[party].finished && !world.parties[party].dead) visit(killed(world, party));
    }
    if (!moved) judge(world);
  }

  World stepped(World world, size_t party) const {
    ModelBell bell(world, party, condition_);
    try {
      run(bell, party);
      world.parties[party].finished = true;
    } catch (const Paused&) {
    }
    return world;
  }

  void run(ModelBell& bell, size_t party) const {
    if (party != kSleeper) return scenario_.protocol.ringer(bell, party - 1);
    scenario_.protocol.sleeper(bell, [&] {
      for (size_t i = 0; i < scenario_.ringers; ++i) {
        const bool stored = bell.read_data(i) != 0;
        if (stored != scenario_.needs_all) return stored;
      }
      return scenario_.needs_all;
    });
  }

  static World killed(World world, size_t party) {
    world.parties[party].dead = true;
    world.parties[party].blocked = false;
    return world;
  }

  void judge(const World& world) {
    ++ends_;
    if (!world.parties[kSleeper].blocked) return;
    for (size_t ringer = 1; ringer < world.parties.size(); ++ringer) {
      if (world.parties[ringer].finished && world.parties[ringer].looked_in_time) {
        ++lost_;
        return;
      }
    }
  }

  Scenario scenario_;
  Readiness condition_;
  std::set<World> seen_;
  size_t ends_ = 0;
  size_t lost_ = 0;
};

Protocol real_protocol() {
  return {.sleeper =
              [](ModelBell& bell, const std::function<bool()>& ready) {
                while (!bell_steps::sleep(bell, ready)) {
                }
              },
          .ringer =
              [](ModelBell& bell, size_t index) {
                bell.store_data(index);
                bell_steps::ring(bell);
              }};
}

TEST_CASE("no interleaving and no death loses a wake-up for the living") {
  const auto [ringers, needs_all] = GENERATE(table<size_t, bool>({{1, false}, {2, false}, {2, true}, {3, false}}));
  if (!kThorough && ringers > 2) return;  // so many worlds, of one thread
  const Enumeration all({real_protocol(), ringers, needs_all});
  INFO(ringers << " ringers, " << all.worlds() << " worlds, " << all.ends() << " ends");
  CHECK(all.worlds() > 20);
  CHECK(all.ends() > 1);
  CHECK(all.lost_wakeups() == 0);
}

TEST_CASE("the enumeration sees that a sleeper must look again after it said that it sleeps") {
  auto protocol = real_protocol();
  protocol.sleeper = [](ModelBell& bell, const std::function<bool()>& ready) {
    while (!ready()) {
      const uint32_t seen = bell.count();
      bell.store_asleep(1);
      bell.wait(seen);
      bell.store_asleep(0);
    }
  };
  CHECK(Enumeration({protocol, 1, false}).lost_wakeups() > 0);
}

TEST_CASE("the enumeration sees that the count must be read before the last look") {
  auto protocol = real_protocol();
  protocol.sleeper = [](ModelBell& bell, const std::function<bool()>& ready) {
    for (;;) {
      bell.store_asleep(1);
      if (ready()) break;
      const uint32_t seen = bell.count();
      bell.wait(seen);
      bell.store_asleep(0);
    }
    bell.store_asleep(0);
  };
  CHECK(Enumeration({protocol, 1, false}).lost_wakeups() > 0);
}

TEST_CASE("the enumeration sees that a ringer must add to the count before it wakes") {
  auto protocol = real_protocol();
  protocol.ringer = [](ModelBell& bell, size_t index) {
    bell.store_data(index);
    if (bell.asleep() != 0) bell.wake();
  };
  CHECK(Enumeration({protocol, 1, false}).lost_wakeups() > 0);
}

TEST_CASE("the enumeration sees that the data must be stored before the ring") {
  auto protocol = real_protocol();
  protocol.ringer = [](ModelBell& bell, size_t index) {
    // `asleep` is looked at twice, so that the ringer counts as one that looked in time.
    const uint32_t asleep = bell.asleep();
    bell.store_data(index);
    bell.asleep();
    if (asleep == 0) return;
    bell.add_to_count();
    bell.wake();
  };
  CHECK(Enumeration({protocol, 1, false}).lost_wakeups() > 0);
}

}  // namespace
}  // namespace rueda::core
