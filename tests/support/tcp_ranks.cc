// Transports of several ranks in one process, each with the coordinator thread that it would have in a job. They listen
// before any is configured, because the epoch names every port.
#include "tests/support/tcp_ranks.h"

#include <sys/eventfd.h>

#include <stdexcept>

namespace rueda::core {

namespace {

void must(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.sentence());
}

}  // namespace

std::array<uint8_t, 32> test_key(uint8_t seed) {
  std::array<uint8_t, 32> key;
  for (size_t i = 0; i < key.size(); ++i) key[i] = static_cast<uint8_t>(seed + 3 * i);
  return key;
}

TcpRanks::TcpRanks(int size, Options options) : ranks_(static_cast<size_t>(size)) {
  std::vector<PeerAddress> peers;
  for (int rank = 0; rank < size; ++rank) {
    auto transport = TcpTransport::listen({"127.0.0.1"});
    must(transport.status());
    peers.push_back(
        {"host" + std::to_string(options.one_host ? 0 : rank), 1000 + rank, {"127.0.0.1"}, transport.value()->port()});
    ranks_[static_cast<size_t>(rank)].transport = std::move(transport).value();
  }
  for (int rank = 0; rank < size; ++rank) {
    Rank& one = ranks_[static_cast<size_t>(rank)];
    const uint8_t seed = options.key_seeds.empty() ? uint8_t{1} : options.key_seeds[static_cast<size_t>(rank)];
    one.epoch = {
        "job", options.epoch, rank, test_key(seed), options.keyed, options.encrypt_data, options.sockets_per_peer,
        peers};
    must(one.transport->configure(one.epoch));
  }
  if (options.control) connect_control();
  for (Rank& one : ranks_) start(one);
}

void TcpRanks::connect_control() {
  std::vector<std::thread> threads;
  std::vector<Status> results(ranks_.size());
  for (int rank = 0; rank < size(); ++rank) {
    threads.emplace_back([this, rank, &result = results[static_cast<size_t>(rank)]] {
      std::vector<int> others = {0};
      if (rank == 0) others.clear();
      for (int other = 1; rank == 0 && other < size(); ++other) others.push_back(other);
      result = transport(rank).connect_control(others, Deadline::after(std::chrono::seconds(60)),
                                               [](int) { return core::Status(); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& result : results) must(result);
}

void TcpRanks::start(Rank& one) {
  one.bell = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  one.transport->watch(one.bell.get(), [fd = one.bell.get()] {
    eventfd_t count;
    ::eventfd_read(fd, &count);
  });
  one.coordinator = std::thread([transport = one.transport.get(), stopping = one.stopping.get()] {
    while (!stopping->load()) transport->poll(std::chrono::seconds(10));
  });
}

void TcpRanks::stop(int rank) {
  Rank& one = ranks_[static_cast<size_t>(rank)];
  if (!one.coordinator.joinable()) return;
  one.stopping->store(true);
  ::eventfd_write(one.bell.get(), 1);
  one.coordinator.join();
  one.transport.reset();
}

TcpRanks::~TcpRanks() {
  for (int rank = 0; rank < size(); ++rank) stop(rank);
}

}  // namespace rueda::core
