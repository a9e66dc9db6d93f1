#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/agreement/agreement.h"

namespace rueda::core::test {

/// Participants and their arbiter in one thread, with frames that arrive when `exchange` is called. Tickets are made
/// from rank and order: rank * 1000 + n.
class World {
 public:
  static AgreementConfig config_of(int size) {
    AgreementConfig config;
    config.epoch = 7;
    config.size = size;
    std::vector<int> all;
    for (int rank = 0; rank < size; ++rank) {
      all.push_back(rank);
      config.names.hosts.push_back(rank < 3 ? "a" : "b");
    }
    config.sets.push_back({kGlobalSet, all, {size}, true});
    config.select = [](const BatchShape&) -> Result<AlgorithmChoice> { return AlgorithmChoice{1, 64, 5}; };
    return config;
  }

  explicit World(int size) : World(config_of(size)) {}
  explicit World(const AgreementConfig& config) : arbiter(config), events(static_cast<size_t>(config.size)) {
    AgreementConfig own = config;
    for (own.rank = 0; own.rank < config.size; ++own.rank) participants.push_back(std::make_unique<Participant>(own));
    next_ticket_.assign(participants.size(), 1);
  }
  int size() const { return static_cast<int>(participants.size()); }
  Participant& participant(int rank) { return *participants[static_cast<size_t>(rank)]; }
  std::vector<Event>& seen(int rank) { return events[static_cast<size_t>(rank)]; }

  /// A float tensor of the global set.
  static Request tensor(std::string_view name, const Extents& shape = {4}) {
    Request request;
    request.name = name;
    request.metadata.shape = shape;
    return request;
  }
  /// The request's ticket.
  uint64_t submit(int rank, Request request) {
    request.ticket = static_cast<uint64_t>(rank) * 1000 + next_ticket_[static_cast<size_t>(rank)]++;
    participant(rank).submit({&request, 1});
    collect(rank);
    return request.ticket;
  }
  void submit_all(const Request& request) {
    for (int rank = 0; rank < size(); ++rank) submit(rank, request);
  }
  /// The first member's ticket.
  uint64_t submit_group(int rank, std::vector<Request> requests) {
    describe_group(requests);
    uint64_t& next = next_ticket_[static_cast<size_t>(rank)];
    const uint64_t first = static_cast<uint64_t>(rank) * 1000 + next;
    for (Request& request : requests) {
      request.ticket = static_cast<uint64_t>(rank) * 1000 + next++;
      request.group = first;
    }
    participant(rank).submit(requests);
    collect(rank);
    return first;
  }
  /// Carries frames until nothing moves. Returns the bytes that went up.
  size_t exchange() {
    size_t total = 0;
    for (size_t moved = 1; moved != 0;) {
      moved = up();
      total += moved;
      arbiter.plan();
      moved += down();
    }
    return total;
  }
  size_t up() {
    size_t bytes = 0;
    for (int rank = 0; rank < size(); ++rank) {
      for (auto frame = participant(rank).take_frame(); !frame.empty(); frame = participant(rank).take_frame()) {
        bytes += frame.size();
        take(arbiter.receive(rank, frame));
        up_frames.emplace_back(rank, frame);
      }
    }
    return bytes;
  }
  size_t down() {
    size_t bytes = 0;
    for (int rank = 0; rank < size(); ++rank) {
      for (auto frame = arbiter.take_frame(rank); !frame.empty(); frame = arbiter.take_frame(rank)) {
        bytes += frame.size();
        take(participant(rank).receive(frame));
        collect(rank);
        down_frames.emplace_back(rank, frame);
      }
    }
    return bytes;
  }
  void collect(int rank) {
    for (Event& event : participant(rank).take_events()) seen(rank).push_back(std::move(event));
  }
  /// The events of a kind on a rank since the beginning.
  template <typename Kind>
  std::vector<Kind> all(int rank) {
    std::vector<Kind> found;
    for (const Event& event : seen(rank)) {
      if (const auto* one = std::get_if<Kind>(&event)) found.push_back(*one);
    }
    return found;
  }
  std::vector<BatchEvent> batches(int rank) { return all<BatchEvent>(rank); }
  std::vector<ErrorEvent> errors(int rank) { return all<ErrorEvent>(rank); }
  /// Starts every batch that rank 0 has seen and not started.
  void start_all() {
    for (const BatchEvent& batch : batches(0)) participant(0).started(batch.set, batch.number);
  }

  Arbiter arbiter;
  std::vector<std::unique_ptr<Participant>> participants;
  std::vector<std::vector<Event>> events;
  std::vector<std::pair<int, std::vector<std::byte>>> up_frames;
  std::vector<std::pair<int, std::vector<std::byte>>> down_frames;
  Status broken;  ///< the first frame that was refused

 private:
  void take(const Status& status) {
    if (broken.ok()) broken = status;
  }
  std::vector<uint64_t> next_ticket_;
};

}  // namespace rueda::core::test
