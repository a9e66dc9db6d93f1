// A lane by itself, with an executor that fails and channels that note what they are told.
#include "runtime/engine/lane.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <new>
#include <string>
#include <vector>

#include "runtime/engine/core_claim.h"
#include "runtime/engine/lane_cores.h"
#include "tests/support/deadlines.h"

namespace rueda::test {
namespace {

using namespace core;

enum class Failing { kByStatus, kByException, kInStep, kNot };

/// What happened to a batch, in order.
using Story = std::vector<std::string>;

class NotingChannels : public ChannelSet {
 public:
  explicit NotingChannels(Story& story) : story_(story) {}
  Result<Channel*> to(int, Deadline) override { return Status(Code::kUnsupported, "no channels"); }
  Status until(const std::function<bool()>&, Deadline) override { return {}; }
  void give_up(const Status& why) override { story_.push_back("gives up: " + why.sentence()); }
  void poll() override {}
  void wake() override {}

 private:
  Story& story_;
};

class FailingExecutor : public Executor {
 public:
  explicit FailingExecutor(Failing failing) : failing_(failing) {}
  Result<AlgorithmChoice> select(const BatchShape&) const override { return AlgorithmChoice(); }
  std::vector<Variant> variants(const BatchShape&) const override { return {}; }
  std::vector<Variant> refinements(const BatchShape&, const Variant&) const override { return {}; }
  Result<AlgorithmChoice> plan(const BatchShape&, const Variant&) const override { return AlgorithmChoice(); }
  bool runs_inline(const AlgorithmChoice&) const override { return failing_ == Failing::kInStep; }
  const char* algorithm_name(uint8_t) const override { return "failing"; }
  Result<StepResult> step(const Call&, Mesh&, StepState&) override { return Status(Code::kSystem, "a step"); }
  Status run(const Call&, Mesh&, Deadline) override {
    if (failing_ == Failing::kByException) throw std::bad_alloc();
    return failing_ == Failing::kNot ? Status() : Status(Code::kSystem, "an algorithm");
  }

 private:
  const Failing failing_;
};

class NotingObserver : public LaneObserver {
 public:
  explicit NotingObserver(Story& story) : story_(story) {}
  void batch_started(Batch&) override {}
  void batch_launched(std::unique_ptr<Batch>) override { story_.push_back("is launched"); }
  void batch_finished(Batch&, const Status& result) override {
    story_.push_back(result.ok() ? "succeeds" : "fails: " + result.sentence());
  }

 private:
  Story& story_;
};

std::unique_ptr<Mesh> mesh_of_one(Story& story, const Abort& abort) {
  SegmentLayout layout;
  layout.lanes = 1;
  layout.rings = 1;
  layout.ring_bytes = 4096;
  layout.local_size = 1;
  auto segment = Segment::create(layout, 1, 0);
  REQUIRE(segment.ok());
  std::vector<std::shared_ptr<Segment>> segments;
  segments.push_back(std::move(segment).value());
  return std::make_unique<Mesh>(0, 0, std::move(segments), std::make_unique<NotingChannels>(story), abort, WaitStyle());
}

/// One rank's lane, which ends with this.
Story run_batch(Failing failing) {
  baton_holder.assert_held();
  const Abort abort;
  Story story;
  FailingExecutor executor(failing);
  NotingObserver observer(story);
  Lane lane(mesh_of_one(story, abort), executor, observer, {"lane", {}});
  auto batch = std::make_unique<Batch>();
  batch->inline_algorithm = executor.runs_inline({});
  lane.submit(std::move(batch));
  while (lane.step_inline()) {
  }
  lane.stop();
  return story;
}

TEST_CASE("a batch that fails lets the channels give up its memory before anyone hears of it") {
  const auto [failing, why] = GENERATE(table<Failing, std::string>(
      {{Failing::kByStatus, "an algorithm"}, {Failing::kByException, "out of memory"}, {Failing::kInStep, "a step"}}));
  const Story story = run_batch(failing);
  REQUIRE(story.size() == 2);
  CHECK_THAT(story[0], Catch::StartsWith("gives up: " + why));
  CHECK_THAT(story[1], Catch::StartsWith("fails: " + why));
}

/// Notes where the lane's thread may run while it runs a batch.
class PlacedExecutor : public FailingExecutor {
 public:
  PlacedExecutor() : FailingExecutor(Failing::kNot) {}
  Status run(const Call&, Mesh&, Deadline) override {
    cores = allowed_cores();
    return {};
  }
  std::vector<int> cores;
};

TEST_CASE("a lane runs each batch on the core of its caller") {
  baton_holder.assert_held();
  const std::vector<int> allowed = allowed_cores();
  if (allowed.size() < 2) WARN("with one core a lane can go nowhere, so this shows nothing");
  const int home = allowed.front(), away = allowed.back();
  const auto word_of = [](int core) { return static_cast<uint32_t>(core) + 1; };
  std::atomic<uint32_t> mine{0}, others{0};
  const LaneCores cores(0, {home, away}, {&mine, &others});
  const Abort abort;
  Story story;
  PlacedExecutor executor;
  NotingObserver observer(story);
  Lane lane(mesh_of_one(story, abort), executor, observer, {"lane", {home}, &cores});
  const auto placed = [&]() RUEDA_ON(baton_holder) {
    lane.submit(std::make_unique<Batch>());
    REQUIRE(lane.drain(late()));
    return executor.cores;
  };
  CHECK(placed() == std::vector{home});
  mine = word_of(away);
  others = word_of(home);
  CHECK(placed() == std::vector{away});
  others = word_of(away);
  CHECK(placed() == std::vector{home});
  lane.stop();
  CHECK(allowed_cores() == allowed);
}

TEST_CASE("channels keep what they have if a batch succeeds") { CHECK(run_batch(Failing::kNot) == Story{"succeeds"}); }

}  // namespace
}  // namespace rueda::test
