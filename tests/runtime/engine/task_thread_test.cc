#include "runtime/engine/worker.h"

#include <catch2/catch.hpp>
#include <future>

namespace rueda::core {
namespace {

TEST_CASE("a worker that is stopped drops what is queued and waits for what runs") {
  Worker worker;
  std::promise<void> begun;
  bool ended = false, ran = false;
  CHECK(worker
            .post([&] {
              begun.set_value();
              ended = true;
            })
            .ok());
  begun.get_future().wait();
  CHECK(worker.stop(Deadline::never()));
  CHECK(ended);
  CHECK(worker.post([&] { ran = true; }).ok());
  CHECK(worker.stop(Deadline::never()));
  CHECK_FALSE(ran);
}

TEST_CASE("a worker does not wait for ever for what has no end, which ends behind it") {
  std::promise<void> begun, go, done;
  auto worker = std::make_unique<Worker>();
  CHECK(worker
            ->post([gate = std::make_shared<std::future<void>>(go.get_future()), &begun, &done] {
              begun.set_value();
              gate->wait();
              done.set_value();
            })
            .ok());
  begun.get_future().wait();
  bool dropped = true;
  CHECK(worker->post([&dropped] { dropped = false; }).ok());
  CHECK_FALSE(worker->stop(Deadline::after(std::chrono::milliseconds(1))));
  worker.reset();
  go.set_value();
  done.get_future().wait();
  CHECK(dropped);
}

}  // namespace
}  // namespace rueda::core
