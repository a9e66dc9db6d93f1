// What is left of an operation if there is no memory in its middle. Each case fails the first allocation of a thread,
// then the second, and so on until none fails any more.
#include <catch2/catch.hpp>
#include <new>

#include "tests/runtime/engine/engine_ranks.h"
#include "tests/support/scarce_memory.h"

namespace rueda::test {
namespace {

using namespace core;

constexpr SetId kSet = 7;
constexpr int kPlenty = 1 << 30;  ///< allocations
constexpr int kWholeInTurn = 5;   ///< runs without a failure, after which more room is taken to change nothing

std::shared_ptr<Operation> group_of(const std::vector<std::string>& names, SetId set = kSet) {
  auto operation = std::make_shared<Operation>(OperationHome(), OperationSpec(), names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    operation->tensors()[i].request.name = names[i];
    operation->tensors()[i].request.set = set;
  }
  return operation;
}

void release(NamesInFlight& names, const std::shared_ptr<Operation>& operation) {
  TensorPart* const any = operation->tensors().data();
  names.release({&any, 1});
}

bool is_free(NamesInFlight& names, const std::string& name, SetId set = kSet) {
  const auto probe = group_of({name}, set);
  const bool free = names.reserve(*probe).ok();
  if (free) release(names, probe);
  return free;
}

/// No name gets a number by itself any more.
void use_up_numbers(NamesInFlight& names) {
  for (size_t i = 0; i < NamesInFlight::kKnownNames; ++i) {
    const auto early = group_of({"early " + std::to_string(i)});
    REQUIRE(names.reserve(*early).ok());
    release(names, early);
  }
}

/// How a step went: none of its allocations failed, one did and the step went on, or the step threw.
enum class Course { kWhole, kShort, kThrew };

/// Calls `step` with room for `room` allocations. Checks of the test need memory, too.
template <typename Step>
Course run_short(int room, Step&& step, Shortage shortage = Shortage::kLasting) {
  const ScarceMemory scarce(room, shortage);
  try {
    step();
  } catch (const std::bad_alloc&) {
    return Course::kThrew;
  }
  return scarce.was_short() ? Course::kShort : Course::kWhole;
}

}  // namespace

TEST_CASE("a group that finds no memory for a name leaves none of its names in flight") {
  const bool numbered = GENERATE(true, false);
  int room = 0;
  for (bool whole = false; !whole; ++room) {
    NamesInFlight names;
    if (!numbered) use_up_numbers(names);
    {
      const auto group = group_of({"a", "b", "c"});
      whole = run_short(room, [&] { static_cast<void>(names.reserve(*group)); }) == Course::kWhole;
      for (const char* name : {"a", "b", "c"}) CHECK(is_free(names, name) == !whole);
      if (whole) release(names, group);
    }  // without its texts, which names in flight would be views of
    for (const char* name : {"a", "b", "c"}) CHECK(is_free(names, name));
  }
  CHECK(room > 1);
}

TEST_CASE("a name in flight whose number finds no memory stays in flight by its text") {
  int room = 0;
  for (bool whole = false; !whole; ++room) {
    NamesInFlight names;
    use_up_numbers(names);
    const auto here = group_of({"late"}), there = group_of({"late"}, kSet + 1);
    REQUIRE(names.reserve(*here).ok());
    REQUIRE(names.reserve(*there).ok());
    whole = run_short(room, [&] { static_cast<void>(names.intern("late")); }) == Course::kWhole;
    CHECK_FALSE(is_free(names, "late"));
    CHECK_FALSE(is_free(names, "late", kSet + 1));
    CHECK(is_free(names, "late", kSet + 2));
    release(names, here);
    CHECK(is_free(names, "late"));
    CHECK_FALSE(is_free(names, "late", kSet + 1));
    CHECK(names.intern("late") == NamesInFlight::kKnownNames + 1);
    CHECK(is_free(names, "late"));
    CHECK_FALSE(is_free(names, "late", kSet + 1));
    release(names, there);
    CHECK(is_free(names, "late", kSet + 1));
  }
  CHECK(room > 3);
}

TEST_CASE("a rank that runs out of memory hangs nobody: it goes on, or all operations end") {
  const int size = GENERATE(1, 2);
  const Shortage shortage = GENERATE(Shortage::kOnce, Shortage::kLasting);
  // Other threads, which have memory, may run the turns; then fewer allocations are this one's.
  int room = 0;
  for (int in_turn = 0; in_turn < kWholeInTurn; ++room) {
    Course course = Course::kWhole;
    EngineRanks::run({.size = size}, [&](Engine& engine, int rank) {
      std::vector<float> first(1, 1), second(1, 2), third(1, 3);
      const auto one = make_sum(engine, {.name = "first", .tensors = {&first}, .more = true});
      const auto two = make_sum(engine, {.name = "second", .tensors = {&second}, .more = true});
      const auto three = make_sum(engine, {.name = "third", .tensors = {&third}});
      // The turns of the third take all of them: nothing is rung for the others. The other rank may have ended the job.
      if (!engine.submit(one).ok() || !engine.submit(two).ok()) return;
      const bool scarce = rank == size - 1;
      Status entered, result;
      const auto step = [&] { result = engine.submit_and_wait(three, entered); };
      const Course mine = run_short(scarce ? room : kPlenty, step, shortage);
      if (scarce) course = mine;
      for (Operation* each : {one.get(), two.get()}) static_cast<void>(finish(engine, *each));
      const bool well = one->status().ok() && two->status().ok();
      if (mine == Course::kThrew) {  // it was not taken
        if (well) require(sum_now(engine, "third", third).ok(), "a rank that went on could not reduce");
      } else if (mine == Course::kWhole && scarce) {
        require(well && result.ok(), "a rank that had memory failed: " + result.sentence());
      }
    });
    in_turn = course == Course::kWhole ? in_turn + 1 : 0;
  }
  CHECK(room > kWholeInTurn);
}

}  // namespace rueda::test
