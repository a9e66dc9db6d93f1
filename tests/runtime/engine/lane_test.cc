// A lane by itself, with an executor that fails and channels that note what they are told.
#include "runtime/engine/lane.h"

#include <catch2/catch.hpp>
#include <new>
#include <string>
#include <vector>

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

/// One rank's lane, which ends with this.
Story run_batch(Failing failing) {
  baton_holder.assert_held();
  SegmentLayout layout;
  layout.lanes = 1;
  layout.rings = 1;
  layout.ring_bytes = 4096;
  layout.local_size = 1;
  auto segment = Segment::create(layout, 1, 0);
  REQUIRE(segment.ok());
  const Abort abort;
  Story story;
  FailingExecutor executor(failing);
  NotingObserver observer(story);
  std::vector<std::shared_ptr<Segment>> segments;
  segments.push_back(std::move(segment).value());
  Lane lane(
      std::make_unique<Mesh>(0, 0, std::move(segments), std::make_unique<NotingChannels>(story), abort, WaitStyle()),
      executor, observer, {"lane", {}});
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

TEST_CASE("channels keep what they have if a batch succeeds") { CHECK(run_batch(Failing::kNot) == Story{"succeeds"}); }

}  // namespace
}  // namespace rueda::test
