// Runs the stories with real machines at both ends of every frame, once without relays and once with, and writes down
// the frames in the order in which a fuzzed machine takes them.
#include <cstdio>

#include "tests/fuzz/agreement_job.h"
#include "tests/fuzz/targets.h"
#include "tests/runtime/agreement/agreement_world.h"

namespace rueda::fuzz {
namespace {

using namespace rueda::core;
using Frame = std::vector<std::byte>;

/// One input. Frames come from `senders` in turn, beginning with `first`; those without a frame send an empty one.
class Recording {
 public:
  Recording(Machine machine, size_t story, size_t senders = 1, size_t first = 0) : senders_(senders), next_(first) {
    input_.push_back(static_cast<std::byte>(static_cast<size_t>(machine) + kMachines * story));
  }
  void add(size_t sender, const Frame& frame) {
    for (; next_ != sender; next_ = (next_ + 1) % senders_) input_.push_back(std::byte{0});
    next_ = (next_ + 1) % senders_;
    hold(!frame.empty() && frame.front() == std::byte{0} && frame.size() - 1 <= UINT8_MAX);  // the epoch is 0
    input_.push_back(static_cast<std::byte>(frame.size() - 1));
    input_.insert(input_.end(), frame.begin() + 1, frame.end());
  }
  void next_phase() { input_.push_back(std::byte{0}); }
  Frame take() { return std::move(input_); }

 private:
  const size_t senders_;
  size_t next_;
  Frame input_;
};

void must(const Status& status) {
  if (!status.ok()) std::fprintf(stderr, "agreement_fuzz: %s\n", status.sentence().c_str());
  hold(status.ok());
}

void record_flat(size_t story, std::vector<Frame>& inputs) {
  test::World world(agreement_config());
  Recording participant(Machine::kParticipant, story);
  size_t shown = 0;
  for (size_t phase = 0; phase < kPhases; ++phase) {
    for (const int rank : {0, 1}) act(story, phase, rank, world.participant(rank));
    world.exchange();
    must(world.broken);
    for (; shown < world.down_frames.size(); ++shown) {
      const auto& [rank, frame] = world.down_frames[shown];
      if (rank == 1) participant.add(0, frame);
    }
    participant.next_phase();
  }
  Recording arbiter(Machine::kArbiter, story, 2, 1);
  for (const auto& [rank, frame] : world.up_frames) arbiter.add(static_cast<size_t>(rank), frame);
  inputs.push_back(participant.take());
  inputs.push_back(arbiter.take());
}

/// Rank 0 with its relay, and rank 1 behind a relay of its own.
class RelayedJob {
 public:
  explicit RelayedJob(size_t story)
      : story_(story), arbitrated_(Machine::kRelayedArbiter, story), relayed_(Machine::kRelay, story, 3) {
    for (const int rank : {0, 1}) participants_.push_back(std::make_unique<Participant>(config(rank)));
  }

  void run(std::vector<Frame>& inputs) {
    for (size_t phase = 0; phase < kPhases; ++phase) {
      for (const int rank : {0, 1}) act(story_, phase, rank, *participants_[static_cast<size_t>(rank)]);
      for (bool moved = true; moved;) {
        moved = exchange();
        if (!moved && top_.held() + leaf_.held() != 0) {
          top_.release();
          leaf_.release();
          moved = exchange();
        }
      }
    }
    inputs.push_back(arbitrated_.take());
    inputs.push_back(relayed_.take());
  }

 private:
  static AgreementConfig config(int rank) {
    AgreementConfig config = agreement_config();
    config.relayed = true;
    config.rank = rank;
    return config;
  }
  bool exchange() {
    const bool moved_up = up();
    return down() || moved_up;
  }
  bool up() {
    bool moved = false;
    for (Frame f = participants_[0]->take_frame(); !f.empty(); f = participants_[0]->take_frame(), moved = true) {
      below(0, f);
    }
    for (Frame f = participants_[1]->take_frame(); !f.empty(); f = participants_[1]->take_frame(), moved = true) {
      must(leaf_.from_below(0, f));
    }
    for (Frame f = leaf_.take_up(); !f.empty(); f = leaf_.take_up(), moved = true) {
      below(1, f);
      leaf_.acknowledged();
    }
    for (Frame f = top_.take_up(); !f.empty(); f = top_.take_up(), moved = true) {
      arbitrated_.add(0, f);
      must(arbiter_.receive_relayed(f));
      top_.acknowledged();
    }
    arbiter_.plan();
    return moved;
  }
  void below(size_t child, const Frame& frame) {
    relayed_.add(child, frame);
    must(top_.from_below(child, frame));
  }
  bool down() {
    bool moved = false;
    for (Frame f = arbiter_.take_addressed(); !f.empty(); f = arbiter_.take_addressed(), moved = true) {
      relayed_.add(2, f);
      must(top_.from_above(f));
    }
    for (Frame f = top_.take_down(1); !f.empty(); f = top_.take_down(1)) must(leaf_.from_above(f));
    for (Frame f = top_.take_down(0); !f.empty(); f = top_.take_down(0)) must(participants_[0]->receive(f));
    for (Frame f = leaf_.take_down(0); !f.empty(); f = leaf_.take_down(0)) must(participants_[1]->receive(f));
    return moved;
  }

  size_t story_;
  Recording arbitrated_, relayed_;
  std::vector<std::unique_ptr<Participant>> participants_;
  Arbiter arbiter_{config(0)};
  Relay top_{relay_at_top(agreement_config())};
  Relay leaf_{{0, 2, {{RelayConfig::Child::Kind::kRank, {1}}}, agreement_config().sets}};
};

}  // namespace

std::vector<std::vector<std::byte>> recorded_inputs() {
  std::vector<Frame> inputs;
  for (size_t story = 0; story < kStories; ++story) {
    record_flat(story, inputs);
    RelayedJob job(story);
    job.run(inputs);
  }
  return inputs;
}

}  // namespace rueda::fuzz
