#include <catch2/catch.hpp>

#include "runtime/agreement/messages.h"
#include "tests/runtime/agreement/agreement_world.h"
#include "tests/sim/random.h"
#include "tests/support/scale.h"

using namespace rueda::core;
using rueda::core::test::World;

namespace {

using Frame = std::vector<std::byte>;
using Recorded = std::vector<std::pair<int, Frame>>;

AgreementConfig recorded_config() {
  AgreementConfig config = World::config_of(2);
  config.cache_capacity = 2;
  config.select = [](const BatchShape&) -> Result<AlgorithmChoice> {
    return AlgorithmChoice{1, 64, 5, Stores::kNonTemporal, 300};
  };
  config.sets.push_back({1, {0, 1}, {2}, true});
  return config;
}

Request in_set(SetId number) {
  Request request = World::tensor("in set");
  request.set = number;
  return request;
}

/// Sets made, given up, spoiled and removed.
void play_sets(World& world) {
  for (int rank = 0; rank < 2; ++rank) {
    world.participant(rank).add_set(2, {0, 1}, "");
    world.participant(rank).add_set(3, {rank}, "two lists");
    world.submit(rank, in_set(2));
  }
  world.participant(0).add_set(4, {0, 1}, "given up");
  const uint64_t waits = world.submit(0, in_set(4));
  world.participant(0).abandon(waits, "given up");
  world.exchange();
  for (int rank = 0; rank < 2; ++rank) {
    world.participant(rank).remove_set(2);
    world.exchange();
  }
}

/// A job whose frames hold every kind of record.
void play(World& world) {
  for (int step = 0; step < 3; ++step) {
    for (int i = 0; i < 3; ++i) world.submit_all(World::tensor("w" + std::to_string(i), {step, 2}));
    world.submit_all(World::tensor(""));
    for (int rank = 0; rank < 2; ++rank)
      world.submit_group(rank, {World::tensor("g"), World::tensor("h", {step + rank})});
    world.start_all();
    world.participant(0).timed(kGlobalSet, {300, std::chrono::microseconds(70), Distance::kNear});
    world.exchange();
  }
  const uint64_t cached = world.submit(0, World::tensor(""));
  const uint64_t unknown = world.submit(0, World::tensor("unknown"));
  world.participant(0).abandon(cached, "given up");
  world.participant(0).abandon(unknown, "given up");
  world.exchange();
  play_sets(world);
  world.participant(1).goodbye();
  world.exchange();
}

/// Gives a fresh arbiter all recorded frames before `upto`, then `frame`. It must answer, with a rank if it refuses.
/// Returns whether it refuses.
bool give_arbiter(const Recorded& frames, size_t upto, const Frame& frame) {
  Arbiter arbiter(recorded_config());
  for (size_t i = 0; i < upto; ++i) {
    // Credits depend on batches: planned as in the recording.
    if (!arbiter.receive(frames[i].first, frames[i].second).ok()) return true;
    arbiter.plan();
  }
  const Status status = arbiter.receive(frames[upto].first, frame);
  if (!status.ok()) {
    CHECK(status.code() == Code::kPeerLost);
    CHECK(status.rank() == frames[upto].first);
  }
  arbiter.plan();
  return !status.ok();
}

bool give_participant(const Recorded& frames, size_t upto, const Frame& frame) {
  AgreementConfig config = recorded_config();
  config.rank = frames[upto].first;
  Participant participant(config);
  const Request request = World::tensor("w0", {0, 2});
  participant.submit({&request, 1});
  participant.add_set(2, {0, 1}, "");
  participant.add_set(3, {config.rank}, "two lists");
  if (config.rank == 0) participant.add_set(4, {0, 1}, "given up");
  const Request waits = in_set(2);
  participant.submit({&waits, 1});
  for (size_t i = 0; i < upto; ++i) {
    if (frames[i].first == config.rank && !participant.receive(frames[i].second).ok()) break;
  }
  const Status status = participant.receive(frame);
  if (!status.ok()) {
    CHECK(status.code() == Code::kPeerLost);
    CHECK(status.rank() == 0);
  }
  return !status.ok();
}

constexpr size_t kStep = kThorough ? 1 : 11;  // the frames are much alike, and each begins at another bit

/// Some of what is given must be refused and some must be taken, or the frames never reach what they are to test.
template <typename Give>
void every_prefix_and_flip(const Recorded& frames, Give give) {
  size_t refused = 0;
  size_t taken = 0;
  const auto count = [&](bool refuses) { ++(refuses ? refused : taken); };
  for (size_t i = 0; i < frames.size(); ++i) {
    const Frame& frame = frames[i].second;
    for (size_t length = i % kStep; length <= frame.size(); length += kStep) {
      count(give(frames, i, Frame(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(length))));
    }
    for (size_t bit = i % kStep; bit < frame.size() * 8; bit += kStep) {
      Frame flipped = frame;
      flipped[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      count(give(frames, i, flipped));
    }
  }
  CHECK(refused > 0);
  CHECK(taken > 0);
}

}  // namespace

TEST_CASE("no prefix and no flipped bit of a recorded proposal frame does harm") {
  World world(recorded_config());
  play(world);
  REQUIRE(world.broken.ok());
  every_prefix_and_flip(world.up_frames, give_arbiter);
}

TEST_CASE("no prefix and no flipped bit of a recorded verdict frame does harm") {
  World world(recorded_config());
  play(world);
  REQUIRE(world.broken.ok());
  every_prefix_and_flip(world.down_frames, give_participant);
}

TEST_CASE("random bytes behind a right epoch do no harm") {
  rueda::sim::Random random(1);
  int refused = 0;
  for (int round = 0; round < scaled_down(20000); ++round) {
    Frame frame{std::byte{7}};
    for (size_t length = random.below(64); length > 0; --length) frame.push_back(static_cast<std::byte>(random.next()));
    const Recorded frames{{1, frame}};
    refused += give_arbiter(frames, 0, frame) ? 1 : 0;
    refused += give_participant(frames, 0, frame) ? 1 : 0;
  }
  CHECK(refused > scaled_down(20000));  // of twice as many
}

TEST_CASE("a frame of another epoch, or over 16 MiB, is refused and its sender named") {
  World world(2);
  const Status zombie = world.arbiter.receive(1, Frame{std::byte{8}});
  CHECK(zombie.code() == Code::kPeerLost);
  CHECK(zombie.sentence() == "rank 1 (host a) sent a proposal frame that does not belong to epoch 7");
  const Status large = world.arbiter.receive(1, Frame(kMaxFrameBytes + 1, std::byte{7}));
  CHECK(large.sentence().find("over the limit of 16777216") != std::string::npos);
  CHECK(world.participant(1).receive(Frame{}).rank() == 0);
}

TEST_CASE("a rank that proposes to a set without it, or by an id never given, breaks the protocol") {
  AgreementConfig config = World::config_of(2);
  config.sets.push_back({1, {0}, {1}, true});
  Arbiter arbiter(config);
  ProposalWriter foreign(config.epoch);
  foreign.full(1, "x", Metadata{});
  CHECK_FALSE(arbiter.receive(1, foreign.take()).ok());
  ProposalWriter unknown(config.epoch);
  unknown.cached(5);
  CHECK_FALSE(arbiter.receive(1, unknown.take()).ok());
}

TEST_CASE("what exceeds a frame is split into several, each within the limits") {
  World world(1);
  const size_t count = kMaxRequests + 100;
  for (size_t i = 0; i < count; ++i) world.submit(0, World::tensor("", {1}));
  CHECK(world.participant(0).take_frame().size() <= kMaxFrameBytes);
  CHECK_FALSE(world.participant(0).take_frame().empty());
  CHECK(world.participant(0).take_frame().empty());
}

TEST_CASE("choices and times of trials survive the wire, and what no rank can have sent does not") {
  for (const Stores stores : {Stores::kByDistance, Stores::kPlain, Stores::kNonTemporal}) {
    for (const uint64_t trial : {uint64_t{0}, uint64_t{1}, UINT64_MAX}) {
      WireWriter writer;
      const auto slots = static_cast<uint8_t>(trial == 1 ? 2 : 0);
      const auto sockets = static_cast<uint8_t>(trial == 0 ? 0 : trial == 1 ? 2 : kMostChosenSockets);
      put_choice(writer, {7, 65536, 99, stores, trial, trial == 1, trial == 0, slots, sockets});
      put_trial_time(writer, {trial, std::chrono::nanoseconds(123456), Distance::kFar});
      WireReader reader(writer.view());
      const AlgorithmChoice choice = get_choice(reader);
      const TrialTime time = get_trial_time(reader);
      REQUIRE(reader.finished());
      CHECK((choice.algorithm == 7 && choice.chunk_bytes == 65536 && choice.stamps == 99));
      CHECK((choice.stores == stores && choice.trial == trial && choice.on_engine == (trial == 1)));
      CHECK((choice.sleeps == (trial == 0) && choice.lane_slots == slots));
      CHECK(choice.sockets == sockets);
      CHECK((time.trial == trial && time.took.count() == 123456 && time.distance == Distance::kFar));
    }
  }
  const auto refused = [](std::initializer_list<int> bytes, auto get) {
    WireWriter writer;
    for (const int byte : bytes) writer.u8(static_cast<uint8_t>(byte));
    WireReader reader(writer.view());
    static_cast<void>(get(reader));
    return !reader.ok();
  };
  CHECK_FALSE(refused({1, 64, 5, 2}, get_choice));
  CHECK(refused({1, 64, 5, 3}, get_choice));  // unknown stores
  CHECK_FALSE(refused({1, 64, 5, 16 | 32, 2}, get_choice));
  CHECK_FALSE(refused({1, 64, 5, 64, 4}, get_choice));
  CHECK(refused({1, 64, 5, 64, 1}, get_choice));   // a number of sockets that says nothing
  CHECK(refused({1, 64, 5, 64, 17}, get_choice));  // more than there can be
  CHECK(refused({1, 64, 5, 128}, get_choice));     // an unknown bit
  CHECK(refused({1, 64, 5, 32, 0}, get_choice));   // a number of slots that says nothing
  CHECK(refused({1, 64, 5, 4, 0}, get_choice));    // a trial without a number
  CHECK_FALSE(refused({1, 9, 2}, get_trial_time));
  CHECK(refused({1, 9, 3}, get_trial_time));  // an unknown distance
  WireWriter writer;
  writer.varint(1);
  writer.varint(static_cast<uint64_t>(kMaxTrialTime.count()) + 1);
  writer.u8(0);
  WireReader reader(writer.view());
  static_cast<void>(get_trial_time(reader));
  CHECK_FALSE(reader.ok());
}

TEST_CASE("metadata and lists of operations survive the wire") {
  rueda::sim::Random random(2);
  for (int round = 0; round < 200; ++round) {
    Metadata sent;
    sent.kind = static_cast<OpKind>(random.below(kOpKindCount));
    sent.dtype = static_cast<Dtype>(random.below(kDtypeCount));
    sent.codec = static_cast<CodecId>(random.below(3));
    sent.device = random.between(-1, 3);
    sent.root = random.between(-1, 300);
    if (random.once_in(2)) sent.prescale = 0.1;
    if (random.once_in(2)) sent.group_size = 3;
    sent.group_hash = sent.group_size != 0 ? random.next() : 0;
    for (size_t i = random.below(kMaxDims + 1); i > 0; --i) sent.shape.push_back(random.between(0, 4));
    for (size_t i = 0; i < sent.shape.size() && round % 3 == 0; ++i) sent.order.push_back(static_cast<uint8_t>(i));
    random.shuffle(sent.order);
    if (sent.dtype == Dtype::kOpaque) sent.shape.push_back(random.between(1, 9));
    std::vector<OperationRef> list;
    for (size_t i = random.below(50); i > 0; --i) {
      const bool follows = !list.empty() && !random.once_in(3);
      list.push_back({follows ? list.back().id + 1 : 1 + random.below(1000), random.once_in(5) ? random.below(9) : 0});
    }
    WireWriter writer;
    put_metadata(writer, sent);
    put_operations(writer, list);
    WireReader reader(writer.view());
    CHECK(get_metadata(reader) == sent);
    std::vector<OperationRef> got;
    get_operations(reader, got);
    REQUIRE(reader.finished());
    REQUIRE(got.size() == list.size());
    for (size_t i = 0; i < got.size(); ++i) CHECK((got[i].id == list[i].id && got[i].ahead == list[i].ahead));
  }
}
