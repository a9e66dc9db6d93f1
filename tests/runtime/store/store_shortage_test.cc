// What becomes of a store's requests if there is no memory in their middle. Client and server share one loop on one
// thread. Each run fails the first allocation of that thread, then the second, and so on until none fails any more.
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "runtime/net/connect.h"
#include "runtime/net/resolve.h"
#include "runtime/store/store_desk.h"
#include "runtime/store/store_listener.h"
#include "runtime/store/store_pipe.h"
#include "tests/support/deadlines.h"
#include "tests/support/scarce_memory.h"

namespace rueda::test {
namespace {

using namespace core;

constexpr int kWholeInTurn = 3;  ///< runs without a failure, after which more room is taken to change nothing

/// What an asker knows so far.
enum class Known { kNothing, kDone, kRefused };

/// A store and a client of it whose connection is made.
class Asking {
 public:
  Asking() {
    listener_ = StoreListener::start(io_, desk_, {}).value();
    ConnectFailures failures;
    auto dialled = connect_first(resolve("127.0.0.1", listener_->port()).value(), late(), failures);
    pipe_ = std::make_unique<StorePipe>(io_, std::move(dialled).value().fd, nullptr);
    Known first = Known::kNothing;
    ask(first_request(), first);
    run_until([&] { return first != Known::kNothing; });
    REQUIRE(first == Known::kRefused);  // there is no such value
  }

  StorePipe& pipe() { return *pipe_; }

  /// An asker hears how it went by the exception or by the answer.
  void ask(const StoreRequest& request, Known& known) {
    try {
      pipe_->ask(request, [&known](const StoreReply& reply) {
        REQUIRE(known == Known::kNothing);
        known = reply.status.ok() ? Known::kDone : Known::kRefused;
      });
    } catch (const std::bad_alloc&) {
      known = Known::kRefused;
    }
  }

  /// As `run_loop` does, but in steps. What has not come by the limit never comes.
  template <typename Ready>
  void run_until(Ready&& ready) {
    const Deadline limit = late();
    while (!ready() && !limit.passed()) {
      try {
        io_.run_one_for(std::chrono::milliseconds(50));
      } catch (const std::bad_alloc&) {
      }
    }
  }

 private:
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_{io_.get_executor()};
  KeyTable table_;
  TableDesk desk_{io_, table_, StoreWaits::kForJobsToEnd};
  std::unique_ptr<StoreListener> listener_;
  std::unique_ptr<StorePipe> pipe_;
};

}  // namespace

TEST_CASE("an answer that throws breaks its connection, and every other asker is told") {
  Asking asking;
  Known waiting = Known::kNothing;
  asking.ask({StoreOperation::kGet, "job/a value that never comes", -1, {}}, waiting);
  asking.pipe().ask(first_request(), [](const StoreReply&) { throw std::bad_alloc(); });
  asking.run_until([&] { return waiting != Known::kNothing; });
  CHECK(waiting == Known::kRefused);
  CHECK_THAT(asking.pipe().broken().sentence(), Catch::Matchers::Contains("out of memory"));
}

TEST_CASE("every asker of a store without memory is told") {
  const Shortage shortage = GENERATE(Shortage::kOnce, Shortage::kLasting);
  const std::string key = "job/a value that is set later, under a name of some length";
  const StoreRequest waits{StoreOperation::kGet, key, -1, {}};
  const StoreRequest waits_in_vain{StoreOperation::kGet, "job/a value that never comes", 1, {}};
  const StoreRequest adds{StoreOperation::kAdd, "job/a counter under a name of some length", 1, {}};
  const StoreRequest sets{StoreOperation::kSet, key, 0, std::string(300, 'v')};
  int room = 0;
  for (int in_turn = 0; in_turn < kWholeInTurn; ++room) {
    Known waiting = Known::kNothing, waiting_in_vain = Known::kNothing, adding = Known::kNothing,
          setting = Known::kNothing;
    Asking asking;
    const auto others_know = [&] {
      return waiting_in_vain != Known::kNothing && adding != Known::kNothing && setting != Known::kNothing;
    };
    bool was_short = false;
    {
      const ScarceMemory scarce(room, shortage);
      asking.ask(waits, waiting);
      asking.ask(waits_in_vain, waiting_in_vain);
      asking.ask(adds, adding);
      asking.ask(sets, setting);
      asking.run_until([&] { return others_know() && (waiting != Known::kNothing || setting == Known::kRefused); });
      was_short = scarce.was_short();
    }
    INFO("room for " << room << " allocations");
    REQUIRE(others_know());
    if (waiting == Known::kNothing) {  // rightly, if nothing was set
      REQUIRE(setting == Known::kRefused);
      Known again = Known::kNothing;
      asking.ask(sets, again);
      asking.run_until([&] { return waiting != Known::kNothing; });
    }
    REQUIRE(waiting != Known::kNothing);
    if (!was_short) REQUIRE((waiting == Known::kDone && adding == Known::kDone && setting == Known::kDone));
    in_turn = was_short ? 0 : in_turn + 1;
  }
  CHECK(room > kWholeInTurn);
}

}  // namespace rueda::test
