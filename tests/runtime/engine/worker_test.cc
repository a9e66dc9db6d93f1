#include "runtime/engine/worker.h"

#include <catch2/catch.hpp>
#include <future>

namespace rueda::core {
namespace {

TEST_CASE("a worker that is stopped drops what is queued and waits for what runs") {
  Worker worker;
  std::promise<void> begun;
  bool ended = false, ran = false;
  worker.post([&] {
    begun.set_value();
    ended = true;
  });
  begun.get_future().wait();
  CHECK(worker.stop(Deadline::never()));
  CHECK(ended);
  worker.post([&] { ran = true; });
  CHECK(worker.stop(Deadline::never()));
  CHECK_FALSE(ran);
}

TEST_CASE("a worker does not wait for ever for what has no end, which ends behind it") {
  std::promise<void> begun, go, done;
  auto worker = std::make_unique<Worker>();
  worker->post([gate = std::make_shared<std::future<void>>(go.get_future()), &begun, &done] {
    begun.set_value();
    gate->wait();
    done.set_value();
  });
  begun.get_future().wait();
  bool dropped = true;
  worker->post([&dropped] { dropped = false; });
  CHECK_FALSE(worker->stop(Deadline::after(std::chrono::milliseconds(1))));
  worker.reset();
  go.set_value();
  done.get_future().wait();
  CHECK(dropped);
}

}  // namespace
}  // namespace rueda::core
