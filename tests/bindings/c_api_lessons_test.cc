// Bugs that users of other collective runtimes met, those that no other file here is about. LESSONS.md has the list.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "tests/bindings/operations.h"

namespace rueda::test {
namespace {

// Enqueues sums under `count` names, the last one first where `order` says so, and checks them.
enum class Order { kForward, kBackward };
void sums(rueda_session* session, int rank, int size, int count, int64_t elements, Order order) {
  std::vector<std::vector<float>> values(static_cast<size_t>(count));
  std::vector<rueda_handle> handles;
  for (int i = 0; i < count; ++i) {
    const int name = order == Order::kForward ? i : count - 1 - i;
    auto& own = values[static_cast<size_t>(name)];
    own.assign(static_cast<size_t>(elements + name), static_cast<float>(rank + name));
    handles.push_back(start_sum(session, own, ("w" + std::to_string(name)).c_str()));
  }
  for (const rueda_handle handle : handles) expect(finish(handle).code == RUEDA_OK, "a sum failed");
  const int ranks = size * (size - 1) / 2;
  for (int i = 0; i < count; ++i) {
    for (const float value : values[static_cast<size_t>(i)]) {
      expect(value == static_cast<float>(ranks + size * i), "w" + std::to_string(i) + " among " + std::to_string(size));
    }
  }
}

}  // namespace

TEST_CASE("names that one job has cached mean nothing to the next, of another size, order and shape") {
  const struct {
    int size;
    int names;
    int64_t elements;
    Order order;
  } jobs[] = {{4, 12, 5, Order::kForward},
              {2, 20, 900, Order::kBackward},
              {1, 3, 1, Order::kForward},
              {3, 12, 5, Order::kBackward},
              {4, 12, 6, Order::kForward}};
  for (const auto& job : jobs) {
    run_ranks(job.size, [&](rueda_session* session, int rank) {
      for (int step = 0; step < 4; ++step) sums(session, rank, job.size, job.names, job.elements, job.order);
    });
  }
}

TEST_CASE("one name may be an all-reduce, then a broadcast, then a barrier, then of another dtype, shape and scale") {
  run_ranks(3, [](rueda_session* session, int rank) {
    for (int round = 0; round < 3; ++round) {
      for (int repeat = 0; repeat < 2; ++repeat) {
        std::vector<float> singles(6, static_cast<float>(rank));
        expect_code(sum(session, singles, "w"), RUEDA_OK, "all-reduce");
        expect(singles[5] == 3, "all-reduce");
      }
      std::vector<int16_t> shorts(9, static_cast<int16_t>(rank));
      rueda_op_options options = named("w");
      expect_code(
          rueda_broadcast(session, CTensor(shorts, RUEDA_I16).get(), CTensor(shorts, RUEDA_I16).get(), 1, &options),
          RUEDA_OK, "broadcast");
      expect(shorts[8] == 1, "broadcast");
      expect_code(rueda_barrier(session, &options), RUEDA_OK, "barrier");
      std::vector<double> doubles(4, rank + 1.0);
      const CTensor square(doubles.data(), RUEDA_F64, {2, 2});
      options.has_scale = 1;
      options.prescale = 2;
      options.postscale = round + 1;
      expect_code(rueda_allreduce(session, square.get(), square.get(), RUEDA_MAX, &options), RUEDA_OK,
                  "scaled maximum");
      expect(doubles[3] == 6.0 * (round + 1), "scaled maximum");
    }
  });
}

TEST_CASE("a fusion threshold that changes in the environment holds from the next init on") {
  run_ranks(2, [](rueda_session* session, int rank) {
    sums(session, rank, 2, 30, 100, Order::kForward);
    expect_usable(session, "before the change");
    if (rank == 0) setenv("RUEDA_FUSION_THRESHOLD", "a lot", 1);
    expect_usable(session, "after the change");
    sums(session, rank, 2, 30, 100, Order::kBackward);
  });
  const CallbackStore store;
  int32_t code = RUEDA_OK;
  CHECK(join(store, 0, 1, &code) == nullptr);
  CHECK(code == RUEDA_INVALID_ARGUMENT);
  CHECK(std::string(rueda_last_error()).find("a lot") != std::string::npos);
  unsetenv("RUEDA_FUSION_THRESHOLD");
}

TEST_CASE("a callback that does not come back holds up no other operation and no wait") {
  run_ranks(2, [](rueda_session* session, int rank) {
    struct Stuck {
      std::promise<void> entered;
      std::promise<void> may_leave;
    } stuck;
    rueda_op_options options = named("first");
    options.callback_context = &stuck;
    options.callback = [](void* context, rueda_handle, int32_t) {
      auto* self = static_cast<Stuck*>(context);
      self->entered.set_value();
      self->may_leave.get_future().wait();
    };
    std::vector<float> values = {1};
    const rueda_handle first = start_sum(session, values, options);
    stuck.entered.get_future().wait();
    sums(session, rank, 2, 10, 50, Order::kForward);
    std::thread([&] { expect_usable(session, "another thread"); }).join();
    expect_code(rueda_wait(first, -1), RUEDA_OK, "a wait for the operation whose callback is stuck");
    stuck.may_leave.set_value();
    expect_code(rueda_release(first), RUEDA_OK, "release");
  });
}

}  // namespace rueda::test
