#include "runtime/engine/task_thread.h"

#include <catch2/catch.hpp>
#include <future>

namespace rueda::core {
namespace {

TEST_CASE("a thread that is stopped drops what is queued and waits for what runs") {
  TaskThread thread;
  std::promise<void> begun;
  bool ended = false, ran = false;
  CHECK(thread
            .post([&] {
              begun.set_value();
              ended = true;
            })
            .ok());
  begun.get_future().wait();
  CHECK(thread.stop(Deadline::never()));
  CHECK(ended);
  CHECK(thread.post([&] { ran = true; }).ok());
  CHECK(thread.stop(Deadline::never()));
  CHECK_FALSE(ran);
}

TEST_CASE("a thread does not wait for ever for what has no end, which ends behind it") {
  std::promise<void> begun, go, done;
  auto thread = std::make_unique<TaskThread>();
  CHECK(thread
            ->post([gate = std::make_shared<std::future<void>>(go.get_future()), &begun, &done] {
              begun.set_value();
              gate->wait();
              done.set_value();
            })
            .ok());
  begun.get_future().wait();
  bool dropped = true;
  CHECK(thread->post([&dropped] { dropped = false; }).ok());
  CHECK_FALSE(thread->stop(Deadline::after(std::chrono::milliseconds(1))));
  thread.reset();
  go.set_value();
  done.get_future().wait();
  CHECK(dropped);
}

}  // namespace
}  // namespace rueda::core
