// The small parts of the engine by themselves: inbox, completer, evidence of deaths, names in flight.
#include <atomic>
#include <catch2/catch.hpp>
#include <latch>
#include <stdexcept>
#include <thread>

#include "runtime/base/log.h"
#include "tests/runtime/engine/engine_ranks.h"

namespace rueda::test {
namespace {

using namespace core;
using Catch::Matchers::Contains;

std::shared_ptr<Operation> operation_of(const std::vector<std::string>& names,
                                        std::function<void(Code)> callback = nullptr) {
  OperationSpec spec;
  spec.callback = std::move(callback);
  auto operation = std::make_shared<Operation>(OperationHome(), std::move(spec), names.size());
  for (size_t i = 0; i < names.size(); ++i) operation->tensors()[i].request.name = names[i];
  return operation;
}

void release(NamesInFlight& names, const std::shared_ptr<Operation>& operation) {
  TensorPart* const any = operation->tensors().data();
  names.release({&any, 1});
}

EpochPlan plan_of(int size, int rank) {
  EpochPlan plan;
  plan.size = size;
  plan.rank = rank;
  for (int r = 0; r < size; ++r) {
    Endpoint endpoint;
    endpoint.host = "host" + std::to_string(r);
    endpoint.pid = 100 + r;
    plan.ranks.push_back(endpoint);
    plan.host_of.push_back(r);
  }
  return plan;
}

/// Waits for what must come, without a limit of its own.
std::optional<Status> await_due(Faults& faults) {
  for (;;) {
    if (auto why = faults.due()) return why;
    if (faults.next().is_never()) return std::nullopt;
    std::this_thread::yield();
  }
}

TEST_CASE("an inbox gives what was pushed in order, and only once") {
  baton_holder.assert_held();
  Inbox inbox;
  CHECK(inbox.empty());
  const auto a = operation_of({"a"}), b = operation_of({"b"});
  CHECK(inbox.push({InboxItem::Kind::kSubmit, a}).ok());
  CHECK(inbox.push({InboxItem::Kind::kAbandon, b}).ok());
  CHECK_FALSE(inbox.empty());
  std::vector<InboxItem> taken;
  taken.push_back({InboxItem::Kind::kSubmit, b});
  inbox.take(taken);
  REQUIRE(taken.size() == 2);
  CHECK(taken[0].operation == a);
  CHECK(taken[1].kind == InboxItem::Kind::kAbandon);
  CHECK(inbox.empty());
  inbox.take(taken);
  CHECK(taken.empty());
}

TEST_CASE("a closed inbox refuses submissions with the first reason, and still takes those who want out") {
  Inbox inbox;
  CHECK(inbox.closed().ok());
  inbox.close(Status(Code::kShutDown, "first"));
  inbox.close(Status(Code::kPeerLost, "second"));
  const Status refused = inbox.push({InboxItem::Kind::kSubmit, operation_of({"a"})});
  CHECK(refused.code() == Code::kShutDown);
  CHECK(refused.sentence() == "first");
  CHECK(inbox.empty());
  CHECK(inbox.push({InboxItem::Kind::kAbandon, operation_of({"a"})}).ok());
  CHECK_FALSE(inbox.empty());
}

TEST_CASE("many producers lose nothing to one consumer that takes meanwhile") {
  Inbox inbox;
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  std::atomic<int> left{kThreads};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) static_cast<void>(inbox.push({InboxItem::Kind::kSubmit, operation_of({})}));
      --left;
    });
  }
  baton_holder.assert_held();
  size_t total = 0;
  std::vector<InboxItem> taken;
  for (bool last = false; !last;) {
    last = left.load() == 0;
    inbox.take(taken);
    total += taken.size();
  }
  for (auto& thread : threads) thread.join();
  CHECK(total == kThreads * kEach);
}

TEST_CASE("a completer runs callbacks in the order of posting, on one thread of its own, and all before it stops") {
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  std::atomic<bool> inside{true};
  Completer completer;
  REQUIRE(completer.prepare().ok());
  for (int i = 0; i < 50; ++i) {
    auto operation = operation_of({"w"}, [&, i](Code) {
      order.push_back(i);
      threads.push_back(std::this_thread::get_id());
      if (!Completer::in_callback()) inside = false;
    });
    static_cast<void>(operation->finish_tensor({}));
    operation->complete();
    completer.post(operation);
  }
  completer.stop();
  REQUIRE(order.size() == 50);
  CHECK(std::is_sorted(order.begin(), order.end()));
  CHECK(inside);
  CHECK_FALSE(Completer::in_callback());
  CHECK(std::all_of(threads.begin(), threads.end(),
                    [&](auto id) { return id == threads[0] && id != std::this_thread::get_id(); }));
}

TEST_CASE("a callback that throws is logged and the next one runs") {
  std::vector<std::string> lines;
  set_log_sink([&lines](LogLevel, std::string_view line) { lines.emplace_back(line); });
  bool ran = false;
  {
    Completer completer;
    REQUIRE(completer.prepare().ok());
    completer.post(operation_of({}, [](Code) { throw std::runtime_error("on purpose"); }));
    completer.post(operation_of({}, [&ran](Code) { ran = true; }));
    completer.stop();
  }
  set_log_sink({});
  CHECK(ran);
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Contains("on purpose"));
}

TEST_CASE("what is posted to a stopped completer runs at once on the caller's thread") {
  Completer completer;
  completer.stop();
  std::thread::id ran;
  completer.post(operation_of({}, [&ran](Code) { ran = std::this_thread::get_id(); }));
  CHECK(ran == std::this_thread::get_id());
}

TEST_CASE("evidence becomes the reason after its grace, naming rank, host, pid and cause") {
  const EpochPlan plan = plan_of(3, 1);
  const JudgedBy judge = GENERATE(JudgedBy::kLauncher, JudgedBy::kRankZero);
  Faults faults(plan, judge);
  CHECK(faults.next().is_never());
  CHECK_FALSE(faults.due().has_value());
  CHECK_FALSE(faults.since_first().has_value());
  faults.observe(2, "its process has ended");
  CHECK_FALSE(faults.next().is_never());
  CHECK(faults.since_first().value() >= std::chrono::nanoseconds(0));
  const auto why = await_due(faults);
  REQUIRE(why.has_value());
  CHECK(why->code() == Code::kPeerLost);
  CHECK(why->rank() == 2);
  CHECK(why->sentence() == "rank 2 (host host2, pid 102) died: its process has ended");
}

TEST_CASE("evidence that names its rank itself is the whole sentence") {
  const EpochPlan plan = plan_of(3, 1);
  Faults faults(plan, JudgedBy::kRankZero);
  faults.observe(2, "rank 2 (host host2, pid 102) closed its control connection without a goodbye");
  const auto why = await_due(faults);
  REQUIRE(why.has_value());
  CHECK(why->sentence() == "rank 2 (host host2, pid 102) closed its control connection without a goodbye");
}

TEST_CASE("the grace is the judge's 800 ms, and short where this rank is the judge or sees the judge die") {
  const auto grace_of = [](int own, JudgedBy judge, int seen) {
    const EpochPlan plan = plan_of(3, own);
    Faults faults(plan, judge);
    const auto before = SteadyClock::now();
    faults.observe(seen, "x");
    return faults.next().when() - before;
  };
  CHECK(grace_of(1, JudgedBy::kRankZero, 2) >= std::chrono::milliseconds(800));
  CHECK(grace_of(0, JudgedBy::kLauncher, 2) >= std::chrono::milliseconds(800));
  // Upper limits would judge the machine; that one is a tenth of the other says enough.
  CHECK(grace_of(0, JudgedBy::kRankZero, 2) >= std::chrono::milliseconds(20));
  CHECK(grace_of(1, JudgedBy::kRankZero, 0) >= std::chrono::milliseconds(20));
}

TEST_CASE("a rank that said goodbye does not die, whether before its evidence or after") {
  const EpochPlan plan = plan_of(3, 1);
  Faults faults(plan, JudgedBy::kRankZero);
  faults.left(0);
  faults.observe(0, "its process has closed the connection");
  CHECK(faults.next().is_never());
  faults.observe(2, "its process has closed the connection");
  faults.left(2);
  CHECK_FALSE(await_due(faults).has_value());
  CHECK(faults.has_left(2));
}

/// Ranks 0 and 1 on one host, 2 and 3 on another: 2 leads, and 3 reaches rank 0 through it.
EpochPlan tree_of(int rank) {
  EpochPlan plan = plan_of(4, rank);
  plan.host_of = {0, 0, 1, 1};
  plan.settings.control_tree = Choice::kForce;
  return plan;
}

TEST_CASE("in the tree, whoever has an edge to the dead judges, and the others wait for it") {
  const auto grace_of = [](int own, int seen) {
    const EpochPlan plan = tree_of(own);
    Faults faults(plan, JudgedBy::kRankZero);
    const auto before = SteadyClock::now();
    faults.observe(seen, "x");
    return faults.next().when() - before;
  };
  const std::chrono::milliseconds whole(800);
  CHECK(grace_of(3, 1) >= whole);
  CHECK(grace_of(1, 2) >= whole);
  CHECK(grace_of(0, 3) >= whole);
  for (const auto& [own, seen] : {std::pair(2, 3), std::pair(3, 2), std::pair(0, 2), std::pair(2, 0)}) {
    CHECK(grace_of(own, seen) >= std::chrono::milliseconds(20));
  }
}

TEST_CASE("a rank whose leader has gone with a goodbye is cut off, unless it or rank 0 has left too") {
  const EpochPlan plan = tree_of(3);
  for (const int left : {-1, 0, 3}) {
    Faults faults(plan, JudgedBy::kRankZero);
    faults.left(2);
    if (left >= 0) faults.left(left);
    faults.observe(2, "its process has ended");
    const auto why = await_due(faults);
    REQUIRE(why.has_value() == (left < 0));
    if (left >= 0) continue;
    CHECK(why->code() == Code::kShutDown);
    CHECK(why->sentence() ==
          "rank 2 (host host2, pid 102) has shut down; rank 3 (host host3, pid 103) needed it to reach rank 0");
  }
}

TEST_CASE("a name is in flight once in a set, and free again after its release") {
  NamesInFlight names;
  const auto first = operation_of({"a"}), second = operation_of({"a"}), unnamed = operation_of({""});
  CHECK(names.reserve(*first).ok());
  const Status refused = names.reserve(*second);
  CHECK(refused.code() == Code::kInvalidArgument);
  CHECK_THAT(refused.sentence(), Contains("\"a\"") && Contains("already in flight"));
  CHECK(names.reserve(*unnamed).ok());
  CHECK(names.reserve(*unnamed).ok());
  second->tensors()[0].request.set = 1;
  CHECK(names.reserve(*second).ok());
  release(names, first);
  CHECK(names.reserve(*first).ok());
  CHECK_FALSE(names.reserve(*second).ok());
  release(names, second);
  CHECK(names.reserve(*second).ok());
}

TEST_CASE("interned names keep their numbers in a copy, and a number that callers do not know stands for nothing") {
  NamesInFlight before, after;
  const auto first = operation_of({"first"}), last = operation_of({"last"});
  CHECK(before.reserve(*first).ok());
  CHECK(before.intern("second") == 2);
  CHECK(before.reserve(*last).ok());
  CHECK(before.text(1).empty());
  CHECK(before.text(2) == "second");
  after.copy_from(before);
  CHECK(after.text(1).empty());
  CHECK(after.text(2) == "second");
  CHECK(after.intern("second") == 2);
  CHECK(after.intern("new") == 3);  // "last" had 3, which nobody knew
  CHECK(after.reserve(*first).ok());
  CHECK(before.intern("first") == 1);
  CHECK(before.text(1) == "first");
}

TEST_CASE("a name gets the same number in whatever order names come again") {
  NamesInFlight names;
  for (const auto& order : std::vector<std::vector<std::string>>{
           {"a", "b", "c"}, {"a", "b", "c"}, {"c", "c", "a", "d", "b"}, {"d", "e", "a"}, {"e", "d", "c", "b", "a"}}) {
    for (const std::string& name : order) {
      const auto operation = operation_of({name});
      REQUIRE(names.reserve(*operation).ok());
      CHECK(operation->tensors()[0].request.number == static_cast<uint32_t>(name[0] - 'a' + 1));
      release(names, operation);
    }
  }
}

TEST_CASE("names beyond those with a number are in flight once as well, also if they get one meanwhile") {
  NamesInFlight names;
  for (size_t i = 0; i < NamesInFlight::kKnownNames; ++i) {
    const auto early = operation_of({"early " + std::to_string(i)});
    REQUIRE(names.reserve(*early).ok());
    CHECK(early->tensors()[0].request.number == i + 1);
    release(names, early);
  }
  const auto late = operation_of({"late"}), again = operation_of({"late"}), other = operation_of({"late"});
  other->tensors()[0].request.set = 1;
  CHECK(names.reserve(*late).ok());
  CHECK(late->tensors()[0].request.number == 0);
  CHECK_FALSE(names.reserve(*again).ok());
  CHECK(names.reserve(*other).ok());
  CHECK(names.intern("late") == NamesInFlight::kKnownNames + 1);
  CHECK_FALSE(names.reserve(*again).ok());
  release(names, late);
  CHECK(names.reserve(*again).ok());
  release(names, other);
  CHECK(names.reserve(*other).ok());
  CHECK(other->tensors()[0].request.number == NamesInFlight::kKnownNames + 1);
}

TEST_CASE("a group reserves all its names or none") {
  NamesInFlight names;
  const auto taken = operation_of({"b"}), group = operation_of({"a", "", "b"}), twice = operation_of({"c", "c"});
  const auto a = operation_of({"a"}), c = operation_of({"c"});  // a name in flight is a view of its operation's text
  CHECK(names.reserve(*taken).ok());
  CHECK_FALSE(names.reserve(*group).ok());
  CHECK(names.reserve(*a).ok());  // was given back
  CHECK_THAT(names.reserve(*twice).sentence(), Contains("\"c\""));
  CHECK(names.reserve(*c).ok());
}

TEST_CASE("the first failure of a group's members is the operation's status") {
  const auto operation = operation_of({"a", "b", "c"});
  CHECK_FALSE(operation->finish_tensor({}));
  CHECK_FALSE(operation->finish_tensor(Status(Code::kMismatch, "first")));
  CHECK(operation->finish_tensor(Status(Code::kSystem, "second")));
  CHECK_FALSE(operation->done());
  operation->complete();
  CHECK(operation->done());
  CHECK(operation->status().sentence() == "first");
}

TEST_CASE("all sleepers wake when an operation completes, a sleeper with a deadline at that") {
  const auto operation = operation_of({"a"});
  CHECK(operation->sleep(Deadline::after(std::chrono::milliseconds(1))).code() == Code::kTimeout);
  std::vector<std::thread> threads;
  std::atomic<int> woken{0};
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      if (operation->sleep(Deadline::never()).ok() && operation->done()) ++woken;
    });
  }
  static_cast<void>(operation->finish_tensor({}));
  operation->complete();
  for (auto& thread : threads) thread.join();
  CHECK(woken == 3);
}

TEST_CASE("who abandons an operation wakes when a batch has it, who only waits sleeps on") {
  const auto operation = operation_of({"a"});
  std::thread decider([&] { CHECK(operation->sleep_until_decided(Deadline::never()).ok()); });
  baton_holder.assert_held();
  operation->enter_batch(BatchRunner::kTurns);
  decider.join();
  CHECK(operation->in_batch());
  CHECK_FALSE(operation->done());
  CHECK(operation->sleep(Deadline::after(std::chrono::milliseconds(1))).code() == Code::kTimeout);
}

TEST_CASE("a leader of another host is judged by its silence, from its first sign of life on") {
  using std::chrono::seconds;
  const auto start = SteadyClock::now();
  Heartbeats beats({3, 8}, seconds(5));
  int sent = 0;
  for (int second = 0; second < 10; ++second) {
    sent += beats.due(start + seconds(second)) ? 1 : 0;
    if (second <= 2) beats.heard(3);
    const std::vector<int> silent = beats.silent(start + seconds(second));
    CHECK(silent == (second == 7 ? std::vector<int>{3} : std::vector<int>{}));  // of rank 8 nothing came yet
  }
  CHECK(sent == 5);
  beats.heard(8);
  CHECK(beats.silent(start + seconds(10)).empty());
  CHECK(beats.silent(start + seconds(20)).empty());  // this process itself has slept
  CHECK(beats.silent(start + seconds(22)).empty());
  CHECK(beats.silent(start + seconds(24)).empty());
  CHECK(beats.silent(start + seconds(25)) == std::vector<int>{8});
  CHECK_FALSE(beats.watching());
  CHECK_FALSE(Heartbeats({1}, seconds(0)).watching());
}

}  // namespace
}  // namespace rueda::test
