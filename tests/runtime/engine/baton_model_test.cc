// The baton in every interleaving: `BasicBaton` itself, over words whose operations are single steps of a model.
#include <catch2/catch.hpp>
#include <functional>
#include <set>
#include <vector>

#include "runtime/engine/baton.h"
#include "tests/support/scale.h"

namespace rueda::core {
namespace {

/// One party: a program that is run again from the start of its round for every step, with the results of its earlier
/// steps; the first step that has no result yet is the one that happens.
struct Party {
  std::vector<uint32_t> results;
  bool finished = false;
  bool blocked = false;  ///< the coordinator, in its poll
  auto operator<=>(const Party&) const = default;
};

struct ModelWorld {
  std::vector<uint32_t> words;  ///< of the baton, by order of construction
  uint32_t input = 0;           ///< items that no turn has taken
  uint32_t rung = 0;            ///< the engine's `rung_`
  uint32_t bell = 0;            ///< the coordinator's eventfd
  uint32_t turns_running = 0;
  bool overlapped = false;  ///< two turns ran at once
  std::vector<Party> parties;
  auto operator<=>(const ModelWorld&) const = default;
};

/// Ends a replay after its one new step.
struct Paused {};

/// The one step of one party that is being run.
struct Step {
  ModelWorld* world = nullptr;
  size_t party = 0;
  size_t replayed = 0;
  bool taken = false;
  size_t words_made = 0;
  bool constructing = true;

  template <typename Operation>
  uint32_t run(Operation&& operation) {
    Party& self = world->parties[party];
    if (replayed < self.results.size()) return self.results[replayed++];
    if (taken) throw Paused();
    taken = true;
    ++replayed;
    const uint32_t result = static_cast<uint32_t>(operation());
    world->parties[party].results.push_back(result);
    return result;
  }
};

Step* current = nullptr;

template <typename T>
class ModelAtomic {
 public:
  ModelAtomic(T initial) : index_(current->words_made++) {  // NOLINT(google-explicit-constructor)
    if (current->world->words.size() <= index_) current->world->words.push_back(static_cast<uint32_t>(initial));
  }
  T load() const {
    return static_cast<T>(current->run([&] { return word(); }));
  }
  void store(T value) {
    if (current->constructing) return;
    current->run([&] { return word() = static_cast<uint32_t>(value); });
  }
  T exchange(T value) {
    return static_cast<T>(current->run([&] { return std::exchange(word(), static_cast<uint32_t>(value)); }));
  }

 private:
  uint32_t& word() const { return current->world->words[index_]; }
  size_t index_;
};

using ModelBaton = BasicBaton<ModelAtomic>;
constexpr size_t kExpectingWord = 1;  ///< by order of construction

uint32_t step(const std::function<uint32_t(ModelWorld&)>& operation) {
  return current->run([&] { return operation(*current->world); });
}

/// A turn takes what waits, and returns how much that was. Two steps, so that another one beside it would be seen.
uint32_t turn() {
  const uint32_t taken = step([](ModelWorld& world) {
    if (world.turns_running++ > 0) world.overlapped = true;
    return std::exchange(world.input, 0);
  });
  step([](ModelWorld& world) { return --world.turns_running; });
  return taken;
}

bool input_waiting() {
  return step([](ModelWorld& world) { return world.input; }) != 0;
}

/// As Engine::ring_coordinator.
void ring_coordinator() {
  if (step([](ModelWorld& world) { return std::exchange(world.rung, 1); }) != 0) return;
  step([](ModelWorld& world) { return world.bell = 1; });
}

/// How the engine puts its baton down, and how its coordinator takes it; other ways show that the enumeration sees
/// faults.
struct Protocol {
  std::function<void(ModelBaton&)> put_down;
  std::function<bool(ModelBaton&)> coordinator_takes;
  bool naps = false;             ///< the coordinator takes a nap behind each turn that took something
  bool looks_after_naps = true;  ///< else it sleeps behind a nap
};

// Who holds it is the model's to say: clang's analysis cannot follow it through std::function.
void put_down(ModelBaton& baton, Rest how) RUEDA_ATTRIBUTE(no_thread_safety_analysis) {
  baton.put_down([how] { return how; }, input_waiting,
                 [] {
                   step([](ModelWorld& world) { return world.rung = 0; });
                   turn();
                 });
}

Protocol real_protocol(Rest how = Rest::kIdle) {
  return {.put_down = [how](ModelBaton& baton) { put_down(baton, how); },
          .coordinator_takes = [](ModelBaton& baton) { return baton.try_take_or_wish(); }};
}

void hold(ModelBaton& baton, const Protocol& protocol) {
  step([](ModelWorld& world) { return world.rung = 0; });
  turn();
  protocol.put_down(baton);
}

/// A caller that enqueues and goes.
void produce(ModelBaton& baton) {
  step([](ModelWorld& world) { return ++world.input; });
  if (baton.nobody_looks()) ring_coordinator();
}

/// A caller that enqueues holding the baton, or without it, and then sleeps.
void produce_and_wait(ModelBaton& baton, const Protocol& protocol) RUEDA_ATTRIBUTE(no_thread_safety_analysis) {
  step([](ModelWorld& world) { return ++world.input; });
  if (baton.nobody_looks()) ring_coordinator();
  if (baton.try_take()) hold(baton, protocol);
}

/// The coordinator's turn, and how it puts the baton down. Returns true if it takes a nap.
bool hold_and_nap(ModelBaton& baton, const Protocol& protocol) RUEDA_ATTRIBUTE(no_thread_safety_analysis) {
  step([](ModelWorld& world) { return world.rung = 0; });
  if (turn() != 0) {
    baton.put_down_awake();
    return true;
  }
  protocol.put_down(baton);
  return false;
}

/// One round of the coordinator thread. A nap ends by itself, so the next round follows.
void coordinate(ModelBaton& baton, const Protocol& protocol) {
  if (protocol.coordinator_takes(baton)) {
    if (!protocol.naps) {
      hold(baton, protocol);
    } else if (hold_and_nap(baton, protocol) && protocol.looks_after_naps) {
      return;
    }
  }
  step([](ModelWorld& world) {
    if (world.bell == 0) current->world->parties[current->party].blocked = true;
    return std::exchange(world.bell, 0);
  });
}

/// A peer that sends a frame which only a rank that expects something need hear of.
void send_quietly() {
  step([](ModelWorld& world) { return ++world.input; });
  const bool expecting = step([](ModelWorld& world) { return world.words[kExpectingWord]; }) != 0;
  if (expecting) step([](ModelWorld& world) { return world.bell = 1; });
}

enum class Role { kCoordinator, kProducer, kWaiter, kQuietPeer };

/// Walks through all reachable worlds.
class Enumeration {
 public:
  explicit Enumeration(std::vector<Role> roles, Protocol protocol = real_protocol())
      : roles_(std::move(roles)), protocol_(std::move(protocol)) {
    ModelWorld world;
    world.parties.resize(roles_.size());
    visit(std::move(world));
  }
  size_t worlds() const { return seen_.size(); }
  size_t ends() const { return ends_; }
  /// Ends with input that nobody will take.
  size_t lost() const { return lost_; }
  bool overlapped() const { return overlapped_; }

 private:
  /// Depth first, with a stack of its own: histories are long.
  void visit(ModelWorld first) {
    std::vector<ModelWorld> stack;
    stack.push_back(std::move(first));
    while (!stack.empty()) {
      const ModelWorld world = std::move(stack.back());
      stack.pop_back();
      if (!seen_.insert(world).second) continue;
      bool moved = false;
      for (size_t party = 0; party < roles_.size(); ++party) {
        const Party& self = world.parties[party];
        if (self.finished || (self.blocked && world.bell == 0)) continue;
        moved = true;
        stack.push_back(stepped(world, party));
      }
      overlapped_ = overlapped_ || world.overlapped;
      if (moved) continue;
      ++ends_;
      if (world.input != 0) ++lost_;
    }
  }

  ModelWorld stepped(ModelWorld world, size_t party) const {
    Party& self = world.parties[party];
    if (self.blocked) {
      // The bell woke it: a new round, which remembers nothing.
      world.bell = 0;
      self.blocked = false;
      self.results.clear();
      return world;
    }
    Step one{.world = &world, .party = party};
    current = &one;
    ModelAtomic<uint32_t> asleep{1}, expecting{0};
    ModelBaton baton(asleep, expecting);
    one.constructing = false;
    try {
      run(baton, roles_[party]);
      if (roles_[party] != Role::kCoordinator) {
        world.parties[party].finished = true;
      } else if (!world.parties[party].blocked) {
        world.parties[party].results.clear();  // rung while it was awake: its next round remembers nothing
      }
    } catch (const Paused&) {
    }
    current = nullptr;
    return world;
  }

  void run(ModelBaton& baton, Role role) const {
    if (role == Role::kCoordinator) return coordinate(baton, protocol_);
    if (role == Role::kProducer) return produce(baton);
    if (role == Role::kQuietPeer) return send_quietly();
    produce_and_wait(baton, protocol_);
  }

  const std::vector<Role> roles_;
  const Protocol protocol_;
  std::set<ModelWorld> seen_;
  size_t ends_ = 0;
  size_t lost_ = 0;
  bool overlapped_ = false;
};

void check_sound(const std::vector<Role>& roles, const Protocol& protocol) {
  const Enumeration all(roles, protocol);
  INFO(roles.size() << " parties, " << all.worlds() << " worlds, " << all.ends() << " ends");
  CHECK(all.worlds() > 50);
  CHECK(all.ends() > 0);
  CHECK(all.lost() == 0);
  CHECK_FALSE(all.overlapped());
}

TEST_CASE("no interleaving of the baton loses input or runs two turns at once") {
  using enum Role;
  const auto roles = GENERATE(std::vector<Role>{kCoordinator, kProducer}, std::vector<Role>{kCoordinator, kWaiter},
                              std::vector<Role>{kCoordinator, kProducer, kProducer},
                              std::vector<Role>{kCoordinator, kProducer, kWaiter});
  if (!kThorough && roles.size() > 2 && roles.back() == kWaiter) return;  // a hundred thousand worlds of one thread
  check_sound(roles, real_protocol());
}

TEST_CASE("a coordinator that naps loses no input either") {
  using enum Role;
  const auto roles = GENERATE(std::vector<Role>{kCoordinator, kProducer}, std::vector<Role>{kCoordinator, kWaiter},
                              std::vector<Role>{kCoordinator, kProducer, kProducer});
  Protocol protocol = real_protocol();
  protocol.naps = true;
  check_sound(roles, protocol);
}

TEST_CASE("a rank that rests expecting loses no quiet frame") {
  using enum Role;
  const auto roles =
      GENERATE(std::vector<Role>{kCoordinator, kQuietPeer}, std::vector<Role>{kCoordinator, kQuietPeer, kQuietPeer});
  check_sound(roles, real_protocol(Rest::kExpecting));
  CHECK(Enumeration(roles, real_protocol(Rest::kIdle)).lost() > 0);  // nobody rings it, as is meant
}

TEST_CASE("the enumeration sees that the coordinator must look at the inputs after a nap") {
  Protocol protocol = real_protocol();
  protocol.naps = true;
  protocol.looks_after_naps = false;
  CHECK(Enumeration({Role::kCoordinator, Role::kProducer, Role::kProducer}, protocol).lost() > 0);
}

TEST_CASE("the enumeration sees that the inputs must be looked at again after the announcement") {
  Protocol protocol = real_protocol();
  protocol.put_down = [](ModelBaton& baton) RUEDA_ATTRIBUTE(no_thread_safety_analysis) {
    baton.put_down([] { return Rest::kIdle; }, [] { return false; }, [] { turn(); });
  };
  CHECK(Enumeration({Role::kCoordinator, Role::kProducer}, protocol).lost() > 0);
}

TEST_CASE("the enumeration sees that the announcement must come before the look") {
  Protocol protocol = real_protocol();
  protocol.put_down = [](ModelBaton& baton) RUEDA_ATTRIBUTE(no_thread_safety_analysis) {
    bool waiting = false;
    baton.put_down(
        [&] {
          waiting = input_waiting();
          return Rest::kIdle;
        },
        [&] { return waiting; }, [] { turn(); });
  };
  CHECK(Enumeration({Role::kCoordinator, Role::kProducer}, protocol).lost() > 0);
}

TEST_CASE("the enumeration sees that a coordinator which is refused must leave a wish") {
  Protocol protocol = real_protocol();
  protocol.coordinator_takes = [](ModelBaton& baton) { return baton.try_take(); };
  CHECK(Enumeration({Role::kCoordinator, Role::kProducer, Role::kWaiter}, protocol).lost() > 0);
}

}  // namespace
}  // namespace rueda::core
