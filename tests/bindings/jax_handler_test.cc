// The handler of rueda.jax, called as XLA calls it. A process has one session for XLA's calls, so rank 0 is the one
// that XLA runs on, and the others use the C API.
#include <atomic>
#include <catch2/catch.hpp>
#include <deque>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "tests/bindings/operations.h"
#include "tests/bindings/xla_calls.h"

namespace rueda::test {
namespace {

constexpr const char* kEnded = "Rueda has been shut down";

/// Runs `of_rank_0` with the session of rank 0 in use, and `of_others` on the other ranks.
void run_with_xla(int size, const std::function<void()>& of_rank_0,
                  const std::function<void(rueda_session*, int)>& of_others, int64_t epoch = 1) {
  run_ranks(size, [&](rueda_session* session, int rank) {
    if (rank != 0) return of_others(session, rank);
    rueda_jax_use(session, epoch);
    of_rank_0();
    rueda_jax_leave(kEnded);
  });
}

void expect_ok(const XlaEnding& ending) { expect(!ending.code.has_value(), "the call failed: " + ending.message); }

void expect_failed(const XlaEnding& ending, int32_t code, const std::string& words) {
  expect(ending.code == code && ending.message.find(words) != std::string::npos,
         "the call ended with " + std::to_string(ending.code.value_or(0)) + ", '" + ending.message + "'");
}

void describe_sum(XlaCall& call, const std::string& names) {
  call.set("kind", int64_t{RUEDA_JAX_ALLREDUCE});
  call.set("op", int64_t{RUEDA_SUM});
  call.set("names", names);
}

void expect_counts_equal() {
  int64_t begun = 0, finished = 0;
  rueda_jax_counts(&begun, &finished);
  expect(begun == finished, std::to_string(begun) + " operations begun, " + std::to_string(finished) + " finished");
}

}  // namespace

TEST_CASE("a sum called by XLA is the ranks' sum, with futures and without") {
  for (const Xla version : {Xla::kWithoutFutures, Xla::kWithFutures, Xla::kWithFuturesAndDevices}) {
    run_with_xla(
        3,
        [&] {
          std::vector<float> input = {1, 10}, output(2);
          XlaCall call(version);
          call.add(input, output);
          describe_sum(call, "w");
          call.set("prescale", 0.5);
          call.set("postscale", 4.0);
          expect_ok(call.run());
          expect(output == std::vector<float>{12, 120}, "the sum is wrong");
          expect(input == std::vector<float>{1, 10}, "the input has changed");
        },
        [](rueda_session* session, int rank) {
          std::vector<float> values = {static_cast<float>(rank) + 1, 10 * static_cast<float>(rank) + 10};
          rueda_op_options options = named("w");
          options.has_scale = 1;
          options.prescale = 0.5;
          options.postscale = 4.0;
          expect(finish(start_sum(session, values, options)).code == RUEDA_OK, "the sum failed");
        });
  }
  expect_counts_equal();
}

TEST_CASE("with futures a call returns while other ranks are still to come, and many are in flight") {
  constexpr int kCalls = 40;
  std::latch all_begun(1);
  run_with_xla(
      2,
      [&] {
        std::vector<std::vector<float>> inputs(kCalls, {1, 2, 3}), outputs(kCalls, std::vector<float>(3));
        std::deque<XlaCall> calls;
        for (size_t i = 0; i < kCalls; ++i) {
          XlaCall& call = calls.emplace_back(Xla::kWithFutures);
          call.add(inputs[i], outputs[i]);
          describe_sum(call, "w" + std::to_string(i));
          expect(!call.start().has_value(), "the call has ended without the other rank");
        }
        all_begun.count_down();
        for (XlaCall& call : calls) expect_ok(call.wait());
        for (const std::vector<float>& output : outputs) expect(output == std::vector<float>{2, 4, 6}, "a wrong sum");
      },
      [&](rueda_session* session, int) {
        all_begun.wait();
        for (int i = kCalls; i-- > 0;) {
          std::vector<float> values = {1, 2, 3};
          expect_code(sum(session, values, ("w" + std::to_string(i)).c_str()), RUEDA_OK, "sum");
        }
      });
  expect_counts_equal();
}

TEST_CASE("several tensors of a call are one group, and another device's names have its number behind them") {
  rueda_jax_first_device(2048);
  run_with_xla(
      2,
      [] {
        for (const int32_t device : {2048, 2050}) {
          std::vector<float> a = {1}, b = {2, 3}, sum_of_a(1), sum_of_b(2);
          XlaCall call(Xla::kWithFuturesAndDevices, device);
          call.add(a, sum_of_a);
          call.add(b, sum_of_b);
          describe_sum(call, "a\nb");
          expect_ok(call.run());
          expect(sum_of_a[0] == 2 && sum_of_b == std::vector<float>{4, 6}, "a wrong sum");
        }
      },
      [](rueda_session* session, int) {
        for (const std::string suffix : {"", ".device2"}) {
          std::vector<float> a = {1}, b = {2, 3};
          const CTensor first(a, RUEDA_F32), second(b, RUEDA_F32);
          const rueda_tensor tensors[] = {*first.get(), *second.get()};
          const std::string names[] = {"a" + suffix, "b" + suffix};
          const char* texts[] = {names[0].c_str(), names[1].c_str()};
          const rueda_op_options options = named(nullptr);
          rueda_handle handle = 0;
          expect_code(rueda_grouped_allreduce_async(session, 2, tensors, tensors, texts, RUEDA_SUM, &options, &handle),
                      RUEDA_OK, "group");
          expect(finish(handle).code == RUEDA_OK, "the group failed");
        }
      });
  rueda_jax_first_device(0);
}

TEST_CASE("rows move as their attributes say") {
  run_with_xla(
      2,
      [] {
        std::vector<float> rows = {1, 2, 3}, received(3), gathered(4), one = {7}, scattered(1), root = {0};
        XlaCall exchange(Xla::kWithFutures);
        exchange.add(rows, received);
        exchange.set("kind", int64_t{RUEDA_JAX_ALLTOALL});
        exchange.set("names", std::string("exchange"));
        exchange.set("splits", std::string("1,2"));
        expect_ok(exchange.run());
        expect(received == std::vector<float>{1, 11, 12}, "the exchange is wrong");
        XlaCall gather(Xla::kWithFutures);
        gather.add(one, gathered);
        gather.set("kind", int64_t{RUEDA_JAX_ALLGATHER});
        gather.set("names", std::string("gather"));
        expect_ok(gather.run());
        expect(gathered == std::vector<float>{7, 4, 5, 6}, "the gather is wrong");
        std::vector<float> both = {1, 2};
        XlaCall scatter(Xla::kWithFutures);
        scatter.add(both, scattered);
        scatter.set("kind", int64_t{RUEDA_JAX_REDUCESCATTER});
        scatter.set("op", int64_t{RUEDA_SUM});
        scatter.set("names", std::string("scatter"));
        expect_ok(scatter.run());
        expect(scattered[0] == 2, "the reduce-scatter is wrong");
        XlaCall broadcast(Xla::kWithFutures);
        broadcast.add(one, root);
        broadcast.set("kind", int64_t{RUEDA_JAX_BROADCAST});
        broadcast.set("root", int64_t{1});
        broadcast.set("names", std::string("broadcast"));
        expect_ok(broadcast.run());
        expect(root[0] == 99, "the broadcast is wrong");
      },
      [](rueda_session* session, int) {
        std::vector<float> rows = {11, 12, 13}, three = {4, 5, 6}, both = {1, 2}, value = {99};
        const std::vector<int64_t> splits = {2, 1};
        const CTensor sent(rows, RUEDA_F32), given(three, RUEDA_F32), shared(both, RUEDA_F32),
            of_root(value, RUEDA_F32);
        rueda_op_options options = named("exchange");
        const auto finished = [](int32_t code, rueda_handle handle, const char* what) {
          expect_code(code, RUEDA_OK, what);
          expect(finish(handle).code == RUEDA_OK, what);
        };
        rueda_handle handle = 0;
        int32_t code = rueda_alltoall_async(session, sent.get(), splits.data(), nullptr, &options, &handle);
        finished(code, handle, "exchange");
        options = named("gather");
        code = rueda_allgather_async(session, given.get(), nullptr, &options, &handle);
        finished(code, handle, "gather");
        options = named("scatter");
        code = rueda_reducescatter_async(session, shared.get(), nullptr, RUEDA_SUM, &options, &handle);
        finished(code, handle, "scatter");
        options = named("broadcast");
        expect_code(rueda_broadcast(session, of_root.get(), of_root.get(), 1, &options), RUEDA_OK, "broadcast");
      });
}

TEST_CASE("an error of the ranks reaches the future, or the call that waits, with Rueda's sentence and name") {
  for (const Xla version : {Xla::kWithoutFutures, Xla::kWithFutures}) {
    run_with_xla(
        2,
        [&] {
          std::vector<float> input(2), output(2);
          XlaCall call(version);
          call.add(input, output);
          describe_sum(call, "odd");
          expect_failed(call.run(), RUEDA_XLA_FAILED_PRECONDITION, "[MISMATCH]");
        },
        [](rueda_session* session, int) {
          std::vector<float> values(3);
          expect_code(sum(session, values, "odd"), RUEDA_MISMATCH, "sum");
        });
  }
  expect_counts_equal();
}

TEST_CASE("without a session, or with a process set of an older one, a call fails and says so") {
  std::vector<float> input(2), output(2);
  for (const Xla version : {Xla::kWithoutFutures, Xla::kWithFutures}) {
    XlaCall none(version);
    none.add(input, output);
    describe_sum(none, "w");
    rueda_jax_leave("there is no session");
    expect_failed(none.run(), RUEDA_XLA_FAILED_PRECONDITION, "rueda: there is no session [NOT_INITIALIZED]");
    run_with_xla(
        1,
        [&] {
          XlaCall older(version);
          older.add(input, output);
          describe_sum(older, "w");
          older.set("epoch", int64_t{4});
          expect_failed(older.run(), RUEDA_XLA_INVALID_ARGUMENT, "a process set of a session that has ended");
        },
        [](rueda_session*, int) {}, 5);
  }
}

TEST_CASE(
    "a frame that XLA's compilation cache has kept from another program is refused, and nothing is read beyond it") {
  run_with_xla(
      1,
      [] {
        const auto refused = [](const std::string& words, const std::function<void(XlaCall&)>& change) {
          std::vector<float> input(2), output(2);
          XlaCall call(Xla::kWithFutures);
          call.add(input, output);
          change(call);
          expect_failed(call.run(), RUEDA_XLA_INVALID_ARGUMENT, words);
        };
        refused("lacks names for 1 tensors", [](XlaCall& call) { call.set("kind", int64_t{RUEDA_JAX_ALLREDUCE}); });
        refused("lacks names for 1 tensors", [](XlaCall& call) { call.set("names", int64_t{3}); });
        refused("element type 77", [](XlaCall& call) { call.frame().inputs.items[0]->dtype = 77; });
        refused("1 inputs and 0 outputs", [](XlaCall& call) { call.frame().outputs.count = 0; });
        std::vector<float> more(2), result(2);
        refused("lacks names for 2 tensors", [&](XlaCall& call) {
          call.add(more, result);
          describe_sum(call, "only one");
        });
        for (const char* splits : {"1,1", "x", "1;", ",2"}) {
          refused("splits", [&](XlaCall& call) {
            call.set("kind", int64_t{RUEDA_JAX_ALLTOALL});
            call.set("names", std::string("w"));
            call.set("splits", std::string(splits));
          });
        }
        refused("root", [](XlaCall& call) {
          call.set("kind", int64_t{RUEDA_JAX_BROADCAST});
          call.set("root", int64_t{7});
          call.set("names", std::string("w"));
        });
      },
      [](rueda_session*, int) {});
  XlaCall foreign(Xla::kWithFutures);
  xla_api api = *xla_of(Xla::kWithFutures);
  api.version.major = 1;
  foreign.frame().api = &api;
  expect_failed(foreign.run(), RUEDA_XLA_UNIMPLEMENTED, "another version of XLA's FFI");
}

TEST_CASE("the handler answers XLA's question for its version and does nothing in other stages") {
  xla_metadata metadata{};
  xla_metadata_extension question{{sizeof question, RUEDA_XLA_METADATA, nullptr}, &metadata};
  xla_frame frame{};
  frame.extensions = &question.base;
  CHECK(rueda_jax_handler(&frame) == nullptr);  // without a table, as older versions ask
  CHECK((metadata.version.major == 0 && metadata.version.minor == 1));
  xla_api api = *xla_of(Xla::kWithFutures);
  api.version.minor = 3;
  frame.api = &api;
  CHECK(rueda_jax_handler(&frame) == nullptr);
  CHECK(metadata.version.minor == 3);
  frame.extensions = nullptr;
  frame.stage = RUEDA_XLA_EXECUTE - 1;
  CHECK(rueda_jax_handler(&frame) == nullptr);
}

TEST_CASE("calls on many threads race the end of the session, and each of them ends once") {
  constexpr int kThreads = 4;
  std::atomic<int> succeeded = 0, refused = 0;
  run_ranks(1, [&](rueda_session* session, int) {
    rueda_jax_use(session, 1);
    std::vector<std::thread> threads;
    for (int number = 0; number < kThreads; ++number) {
      threads.emplace_back([&, number] {
        std::vector<float> input = {1}, output(1);
        for (bool last = false; !last;) {
          XlaCall call(number % 2 == 0 ? Xla::kWithFutures : Xla::kWithoutFutures);
          call.add(input, output);
          describe_sum(call, "of thread " + std::to_string(number));
          last = call.run().code.has_value();
          ++(last ? refused : succeeded);
          succeeded.notify_all();
        }
      });
    }
    for (int seen = succeeded; seen < 100; seen = succeeded) succeeded.wait(seen);
    rueda_jax_leave(kEnded);
    for (std::thread& thread : threads) thread.join();
  });
  CHECK(refused == kThreads);
  CHECK(succeeded >= 100);
  expect_counts_equal();
}

}  // namespace rueda::test
