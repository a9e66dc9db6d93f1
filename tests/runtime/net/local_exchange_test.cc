#include "runtime/net/local_exchange.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/net/unix_socket.h"
#include "tests/support/open_descriptors.h"

namespace rueda::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t kEpoch = 3;

SegmentLayout small_layout(int size) {
  SegmentLayout layout;
  layout.local_size = size;
  layout.rings = size;
  layout.lanes = 1;
  layout.slots = 1;
  layout.slot_bytes = 4096;
  layout.ring_bytes = 1024;
  return layout;
}

/// Everything of one rank. Two of them may be in one process.
struct Rank {
  Rank(int rank, int size)
      : scope{.job = "job", .epoch = kEpoch, .rank = rank, .size = size, .key = {}},
        socket(LocalExchange::listen().value()),
        doorbell(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    scope.key.fill(0x5a);
  }

  std::vector<LocalOutcome> meet(const std::vector<std::string>& names, Deadline deadline) {
    segment = Segment::create(small_layout(scope.size), scope.epoch, scope.rank).value();
    segment->lane(0).posted.store(value_of(scope.rank));
    std::vector<LocalCandidate> peers;
    for (int rank = 0; rank < scope.size; ++rank) {
      if (rank != scope.rank) peers.push_back({rank, names[static_cast<size_t>(rank)]});
    }
    auto outcomes = socket->exchange(scope, LocalOffer{*segment, doorbell.get()}, peers, deadline).value();
    socket.reset();
    return outcomes;
  }

  static uint64_t value_of(int rank) { return 1000 + static_cast<uint64_t>(rank); }

  HelloScope scope;
  std::optional<LocalExchange> socket;
  UniqueFd doorbell;
  std::shared_ptr<Segment> segment;
};

std::vector<Rank> make_ranks(int size) {
  std::vector<Rank> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.emplace_back(rank, size);
  return ranks;
}

std::vector<std::string> names_of(const std::vector<Rank>& ranks) {
  std::vector<std::string> names;
  for (const auto& rank : ranks) names.push_back(rank.socket->name());
  return names;
}

/// Every rank meets all others, each on a thread of its own.
std::vector<std::vector<LocalOutcome>> meet_on_threads(std::vector<Rank>& ranks, Deadline deadline) {
  const auto names = names_of(ranks);
  std::vector<std::vector<LocalOutcome>> outcomes(ranks.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] { outcomes[i] = ranks[i].meet(names, deadline); });
  }
  for (auto& thread : threads) thread.join();
  return outcomes;
}

bool readable_within(int fd, seconds limit) {
  pollfd watched{fd, POLLIN, 0};
  return ::poll(&watched, 1, static_cast<int>(milliseconds(limit).count())) == 1;
}

/// The sum of all wrong things about what a rank received.
std::string faults_of(const std::vector<LocalOutcome>& outcomes) {
  std::string faults;
  for (const auto& outcome : outcomes) {
    if (!outcome.status.ok()) {
      faults += outcome.status.sentence() + "; ";
    } else if (outcome.peer.rank != outcome.rank) {
      faults += "wrong rank; ";
    } else if (outcome.peer.segment->lane(0).posted.load() != Rank::value_of(outcome.rank)) {
      faults += "wrong memory; ";
    } else if (!outcome.peer.life.valid() || ::eventfd_write(outcome.peer.doorbell.get(), 1) != 0) {
      faults += "descriptors missing; ";
    }
  }
  return faults;
}

TEST_CASE("ranks on threads receive each other's memory and doorbells, and leave no descriptor") {
  const int size = GENERATE(2, 5, 16);
  const size_t before = open_descriptors();
  {
    auto ranks = make_ranks(size);
    const auto outcomes = meet_on_threads(ranks, Deadline::after(seconds(60)));
    for (size_t i = 0; i < ranks.size(); ++i) {
      INFO("rank " << i << " of " << size);
      REQUIRE(outcomes[i].size() == static_cast<size_t>(size) - 1);
      CHECK(faults_of(outcomes[i]).empty());
      for (const auto& outcome : outcomes[i]) {
        CHECK_FALSE(outcome.peer.pidfd.valid());
        CHECK(outcome.peer.segment == ranks[static_cast<size_t>(outcome.rank)].segment);
      }
    }
    for (const auto& rank : ranks) {
      eventfd_t rings = 0;
      ::eventfd_read(rank.doorbell.get(), &rings);
      CHECK(rings == static_cast<eventfd_t>(size) - 1);
    }
  }
  CHECK(open_descriptors() == before);
}

/// Forks a process that is `rank`, meets the others, and then waits to be killed (or exits 1 if something is wrong).
pid_t fork_rank(std::vector<Rank>& ranks, size_t rank, int ready) {
  const auto names = names_of(ranks);
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i != rank) ranks[i].socket.reset();
  }
  const auto outcomes = ranks[rank].meet(names, Deadline::after(seconds(60)));
  for (const auto& outcome : outcomes) {
    if (!outcome.peer.pidfd.valid()) ::_exit(2);
  }
  if (!faults_of(outcomes).empty()) ::_exit(1);
  ::eventfd_write(ready, 1);
  for (;;) ::pause();
}

TEST_CASE("forked ranks meet, and a killed one is seen by its pidfd and its stream") {
  const int size = 5;
  auto ranks = make_ranks(size);
  UniqueFd ready(::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC));
  std::vector<pid_t> children;
  for (size_t rank = 1; rank < ranks.size(); ++rank) children.push_back(fork_rank(ranks, rank, ready.get()));
  const auto names = names_of(ranks);
  for (size_t rank = 1; rank < ranks.size(); ++rank) ranks[rank].socket.reset();

  const auto outcomes = ranks[0].meet(names, Deadline::after(seconds(60)));
  CHECK(faults_of(outcomes).empty());
  for (size_t i = 0; i < children.size(); ++i) {
    REQUIRE(readable_within(ready.get(), seconds(60)));
    eventfd_t one = 0;
    ::eventfd_read(ready.get(), &one);
  }
  for (size_t i = 0; i < children.size(); ++i) {
    REQUIRE(outcomes[i].status.ok());
    CHECK_FALSE(readable_within(outcomes[i].peer.pidfd.get(), seconds(0)));
    ::kill(children[i], SIGKILL);
    CHECK(readable_within(outcomes[i].peer.pidfd.get(), seconds(60)));
    CHECK(readable_within(outcomes[i].peer.life.get(), seconds(60)));
    int state = 0;
    CHECK(::waitpid(children[i], &state, 0) == children[i]);
    CHECK(WIFSIGNALED(state));
  }
}

TEST_CASE("strangers that stay silent, talk nonsense or crowd in do not keep ranks apart") {
  auto ranks = make_ranks(3);
  const auto names = names_of(ranks);
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 200; ++i) {
    for (const auto& name : names) strangers.push_back(dial_abstract(name).fd);
    const std::string nonsense(static_cast<size_t>(1 + i), 'x');
    if (i % 2 == 0 && strangers.back().valid()) {
      const int passed = strangers.back().get();
      send_packet(passed, std::as_bytes(std::span(nonsense)), std::span(&passed, 1));
    }
  }
  const auto outcomes = meet_on_threads(ranks, Deadline::after(seconds(60)));
  for (const auto& outcome : outcomes) CHECK(faults_of(outcome).empty());
}

TEST_CASE("a rank with another key is refused, and the others meet") {
  auto ranks = make_ranks(3);
  ranks[1].scope.key[0] ^= 1;
  const auto outcomes = meet_on_threads(ranks, Deadline::after(seconds(60)));
  const auto status_of = [&](size_t rank, int peer) {
    for (const auto& outcome : outcomes[rank]) {
      if (outcome.rank == peer) return outcome.status;
    }
    return Status(Code::kUnsupported, "not asked for");
  };
  CHECK(status_of(0, 2).ok());
  CHECK(status_of(2, 0).ok());
  for (const auto& status : {status_of(0, 1), status_of(1, 0), status_of(1, 2), status_of(2, 1)}) {
    CHECK_FALSE(status.ok());
    CHECK(status.rank() >= 0);
    CHECK_FALSE(status.sentence().empty());
  }
}

TEST_CASE("a rank that is gone fails at once, whoever should dial") {
  auto ranks = make_ranks(3);
  const auto names = names_of(ranks);
  ranks[0].socket.reset();
  ranks[2].socket.reset();
  const auto outcomes = ranks[1].meet(names, Deadline::never());
  REQUIRE(outcomes.size() == 2);
  for (const auto& outcome : outcomes) {
    CHECK(outcome.status.code() == Code::kSystem);
    CHECK(outcome.status.rank() == outcome.rank);
  }
}

TEST_CASE("a rank that listens but never comes ends in a timeout that names it") {
  auto ranks = make_ranks(2);
  const auto outcomes = ranks[0].meet(names_of(ranks), Deadline::after(milliseconds(200)));
  REQUIRE(outcomes.size() == 1);
  CHECK(outcomes[0].status.code() == Code::kTimeout);
  CHECK(outcomes[0].status.rank() == 1);
}

TEST_CASE("ranks that laid out their memory differently refuse each other") {
  auto ranks = make_ranks(2);
  const auto names = names_of(ranks);
  std::vector<LocalOutcome> first;
  std::thread other([&] { first = ranks[0].meet(names, Deadline::after(seconds(60))); });
  auto layout = small_layout(2);
  layout.slot_bytes = 8192;
  auto segment = Segment::create(layout, kEpoch, 1).value();
  const LocalCandidate peer{0, names[0]};
  const auto second = ranks[1].socket->exchange(ranks[1].scope, LocalOffer{*segment, ranks[1].doorbell.get()},
                                                std::span(&peer, 1), Deadline::after(seconds(60)));
  ranks[1].socket.reset();
  other.join();
  REQUIRE(second.ok());
  CHECK(second.value()[0].status.code() == Code::kSystem);
  REQUIRE(first.size() == 1);
  CHECK(first[0].status.code() == Code::kSystem);
}

}  // namespace
}  // namespace rueda::core
