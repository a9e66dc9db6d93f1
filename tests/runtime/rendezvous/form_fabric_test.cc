// Ranks as threads form epochs over a fabric: the store, and what of the traffic goes that way.
#include <catch2/catch.hpp>
#include <thread>

#include "runtime/rendezvous/form.h"
#include "runtime/store/fabric_store.h"
#include "tests/support/memory_fabric.h"

namespace rueda::core {
namespace {

Deadline enough() { return Deadline::after(std::chrono::minutes(3)); }

/// Ranks that share no memory.
Identity identity_on_host(int rank, int size) {
  Identity identity;
  identity.rank = rank;
  identity.size = size;
  identity.local_size = 1;
  identity.host = "host" + std::to_string(rank);
  identity.key.present = true;
  identity.worker = "worker" + std::to_string(rank);
  return identity;
}

using Formations = std::vector<Result<Formation>>;

Formations form_over(FabricHub& hub, int size, bool control, bool data) {
  Formations results;
  for (int rank = 0; rank < size; ++rank) results.emplace_back(Status());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const std::shared_ptr<Fabric> fabric = hub.fabric(rank);
      FabricStore store(fabric, enough());
      results[static_cast<size_t>(rank)] = form_epoch(identity_on_host(rank, size), &store, Settings(), enough(),
                                                      {.build = "b", .fabric = {fabric, control, data}});
    });
  }
  for (auto& thread : threads) thread.join();
  return results;
}

/// A frame from `from` that `to` receives, its coordinator's loop running meanwhile.
void check_frame(Formation& from, Formation& to) {
  const auto sends = from.transport->control_link(to.plan.rank);
  const auto receives = to.transport->control_link(from.plan.rank);
  REQUIRE(sends != nullptr);
  REQUIRE(receives != nullptr);
  const Frame sent(100, std::byte{7});
  sends->send(sent, Urgency::kRing);
  std::optional<Frame> got;
  for (const Deadline deadline = enough(); !got && !deadline.passed();) {
    from.transport->poll(std::chrono::milliseconds(1));
    to.transport->poll(std::chrono::milliseconds(1));
    got = receives->receive();
  }
  CHECK(got == sent);
}

void check_formed(Formations& formed, const char* addresses) {
  for (auto& result : formed) {
    INFO(result.status().sentence());
    REQUIRE(result.ok());
    const EpochPlan& plan = result.value().plan;
    CHECK(plan.epoch == formed[0].value().plan.epoch);
    CHECK(plan.local_size() == 1);
    if (*addresses != '\0') CHECK(plan.ranks[0].addresses == std::vector<std::string>{addresses});
  }
  for (size_t rank = 1; rank < formed.size(); ++rank) {
    check_frame(formed[0].value(), formed[rank].value());
    check_frame(formed[rank].value(), formed[0].value());
  }
}

TEST_CASE("an epoch whose control and data a fabric carries listens to nobody else's host") {
  FabricHub hub(3);
  Formations formed = form_over(hub, 3, true, true);
  check_formed(formed, "127.0.0.1");
  Abort abort;
  for (auto& result : formed) CHECK(result.value().transport->channel_set(0, abort) != nullptr);
}

TEST_CASE("an epoch may meet over a fabric and talk over TCP, all of it or its control frames") {
  for (const bool data : {false, true}) {
    FabricHub hub(2);
    Formations formed = form_over(hub, 2, false, data);
    check_formed(formed, "");
  }
}

TEST_CASE("epochs follow each other over one fabric") {
  FabricHub hub(2);
  uint64_t last = 0;
  for (int i = 0; i < 3; ++i) {
    Formations formed = form_over(hub, 2, true, true);
    check_formed(formed, "127.0.0.1");
    last = formed[0].value().plan.epoch;
  }
  CHECK(last > 0);
}

TEST_CASE("an epoch that cannot be formed over a fabric fails on all ranks with one sentence") {
  FabricHub hub(2);
  std::vector<Status> results(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const std::shared_ptr<Fabric> fabric = hub.fabric(rank);
      FabricStore store(fabric, enough());
      const FormOptions options{.build = "build" + std::to_string(rank), .fabric = {fabric, true, true}};
      results[static_cast<size_t>(rank)] =
          form_epoch(identity_on_host(rank, 2), &store, Settings(), enough(), options).status();
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(results[0].code() == Code::kMismatch);
  CHECK(results[0].sentence() == results[1].sentence());
}

}  // namespace
}  // namespace rueda::core
