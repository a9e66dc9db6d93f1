// Handles: waiting, polling, releasing, abandoning, in every order.
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <future>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/bindings/operations.h"
#include "tests/support/scale.h"

namespace rueda::test {
namespace {

// Runs `on_rank_0` while the operation "w" of rank 0 is in flight for certain, since rank 1 submits it only afterwards.
// Then rank 1 submits as often as `follow` says.
void with_one_in_flight(int follow, const std::function<void(rueda_session*, rueda_handle)>& on_rank_0) {
  run_ranks(2, [&](rueda_session* session, int rank) {
    std::vector<float> values = {static_cast<float>(rank + 1)};
    if (rank == 0) {
      const rueda_handle handle = start_sum(session, values, "w");
      expect(handle != 0, rueda_last_error());
      on_rank_0(session, handle);
      expect_usable(session, "go on");
    } else {
      expect_usable(session, "go on");
      for (int i = 0; i < follow; ++i) expect_code(sum(session, values, "w"), RUEDA_OK, "rank 1's sum");
    }
    expect_usable(session, "at the end");
  });
}

/// In the sentence of this thread's last call.
void expect_words(const std::string& words) {
  const std::string sentence = rueda_last_error();
  expect(sentence.find(words) != std::string::npos, "\"" + sentence + "\" lacks \"" + words + "\"");
}

}  // namespace

TEST_CASE("waiting again gives the same result again, from several threads too") {
  run_ranks(2, [](rueda_session* session, int) {
    std::vector<float> values = {1};
    const rueda_handle handle = start_sum(session, values, "w");
    on_threads(4, [&](int) {
      for (int i = 0; i < 3; ++i) expect_code(rueda_wait(handle, -1.0), RUEDA_OK, "wait");
    });
    rueda_tensor output{};
    output.struct_size = sizeof output;
    expect_code(rueda_output(handle, 1, &output), RUEDA_INVALID_ARGUMENT, "an output that is not there");
    expect_words("handle " + std::to_string(handle) + " has no output 1; it has 1, counted from 0");
    expect(rueda_poll(handle) == 1, "a finished operation polls as such");
    expect(std::string(rueda_handle_error(handle)).empty(), "a success has a sentence");
    expect_code(rueda_release(handle), RUEDA_OK, "release");
  });
}

TEST_CASE("a released handle is unknown to wait, poll, release, abandon and output") {
  run_ranks(1, [](rueda_session* session, int) {
    std::vector<float> values = {1};
    const rueda_handle released = start_sum(session, values, "w");
    expect(finish(released).code == RUEDA_OK, "the sum failed");
    for (const rueda_handle handle : {released, rueda_handle{0}, rueda_handle{-5}, released + 1000}) {
      const std::string number = std::to_string(handle);
      expect_code(rueda_wait(handle, 0), RUEDA_INVALID_ARGUMENT, "wait");
      expect(std::string(rueda_last_error()).find(number) != std::string::npos, "the sentence does not name " + number);
      expect(rueda_poll(handle) == -1, "poll knows it");
      expect_code(rueda_last_error_code(), RUEDA_INVALID_ARGUMENT, "poll");
      expect_code(rueda_release(handle), RUEDA_INVALID_ARGUMENT, "release");
      expect_code(rueda_abandon(handle, 0), RUEDA_INVALID_ARGUMENT, "abandon");
      rueda_tensor output{};
      output.struct_size = sizeof output;
      expect_code(rueda_output(handle, 0, &output), RUEDA_INVALID_ARGUMENT, "output");
      expect(rueda_handle_error(handle) != nullptr, "its sentence is null");
    }
  });
}

TEST_CASE("a wait that times out leaves the operation in flight, and a later wait gets its result") {
  run_ranks(2, [](rueda_session* session, int rank) {
    std::vector<float> values = {static_cast<float>(rank + 1)};
    if (rank == 0) {
      const rueda_handle handle = start_sum(session, values, "w");
      for (const double seconds : {0.0, 0.001, 0.02}) {
        expect_code(rueda_wait(handle, seconds), RUEDA_TIMEOUT, "a short wait");
        expect_words("allreduce \"w\": the wait's timeout passed");
        expect(rueda_poll(handle) == 0, "the operation is not in flight any more");
      }
      expect(std::string(rueda_handle_error(handle)).empty(), "an operation in flight has a sentence");
      const std::string belongs = "handle " + std::to_string(handle) + " belongs to an operation in flight";
      rueda_tensor output{};
      output.struct_size = sizeof output;
      expect_code(rueda_output(handle, 0, &output), RUEDA_INVALID_ARGUMENT, "an output in flight");
      expect_words(belongs);
      size_t count = 0;
      expect_code(rueda_received_splits(handle, nullptr, 0, &count), RUEDA_INVALID_ARGUMENT, "splits in flight");
      expect_words(belongs);
      expect_usable(session, "go on");
      expect(finish(handle).code == RUEDA_OK && values[0] == 3, "the result after the timeouts is wrong");
    } else {
      expect_usable(session, "go on");
      expect_code(sum(session, values, "w"), RUEDA_OK, "rank 1's sum");
    }
  });
}

// A wait that runs the engine for the others has no break only where each of the four threads has a core.
TEST_CASE("a wait ends at its limit while operations of other threads go by without a break") {
  run_ranks(2, [](rueda_session* session, int rank) {
    std::vector<float> values = {static_cast<float>(rank + 1)};
    std::atomic<bool> over = false;
    // Until rank 0 says in the sum that it is over.
    std::thread traffic([&] {
      std::vector<float> sign = {0};
      while (sign[0] == 0) {
        sign[0] = over ? 1 : 0;
        if (sum(session, sign, "traffic") != RUEDA_OK) return;
      }
    });
    if (rank == 0) {
      const rueda_handle handle = start_sum(session, values, "w");
      for (int i = 0; i < 3; ++i) expect_code(rueda_wait(handle, 0.01), RUEDA_TIMEOUT, "a short wait");
      expect_code(rueda_wait(handle, std::nan("")), RUEDA_INVALID_ARGUMENT, "a wait for no number of seconds");
      expect_code(rueda_abandon(handle, std::nan("")), RUEDA_INVALID_ARGUMENT,
                  "an abandon within no number of seconds");
      over = true;
      traffic.join();
      expect_usable(session, "go on");
      expect(finish(handle).code == RUEDA_OK && values[0] == 3, "the result after the timeouts is wrong");
    } else {
      traffic.join();
      expect_usable(session, "go on");
      expect_code(sum(session, values, "w"), RUEDA_OK, "rank 1's sum");
    }
  });
}

TEST_CASE("an operation released in flight goes on, and its callback fires exactly once") {
  run_ranks(2, [](rueda_session* session, int rank) {
    std::vector<float> values = {static_cast<float>(rank + 1)};
    struct Seen {
      std::atomic<int> calls = 0;
      std::promise<int32_t> code;
    } seen;
    rueda_op_options options = named("w");
    options.callback_context = &seen;
    options.callback = [](void* context, rueda_handle, int32_t code) {
      auto& mine = *static_cast<Seen*>(context);
      if (mine.calls++ == 0) mine.code.set_value(code);
    };
    if (rank == 1) expect_usable(session, "go on");
    const rueda_handle handle = start_sum(session, values, options);
    expect_code(rueda_release(handle), RUEDA_OK, "release in flight");
    expect(rueda_poll(handle) == -1, "a released handle is known");
    if (rank == 0) expect_usable(session, "go on");
    expect(seen.code.get_future().get() == RUEDA_OK && values[0] == 3, "the released operation did not finish");
    expect_usable(session, "at the end");
    expect(seen.calls == 1, "the callback fired more than once");
  });
}

TEST_CASE("an abandoned operation that no batch holds fails with TIMEOUT on all ranks that submit it") {
  run_ranks(2, [](rueda_session* session, int rank) {
    std::vector<float> values = {1};
    if (rank == 0) {
      const rueda_handle handle = start_sum(session, values, "w");
      // However little time it is given: no batch has it, so nothing has to be waited for.
      expect_code(rueda_abandon(handle, 0), RUEDA_TIMEOUT, "abandon");
      expect(rueda_poll(handle) == 1, "an abandoned operation is in flight");
      expect(values[0] == 1, "its tensor was touched");
      const Ending ending = finish(handle);
      expect(ending.code == RUEDA_TIMEOUT && ending.sentence.find('w') != std::string::npos, ending.sentence);
    }
    expect_usable(session, "go on");
    if (rank == 1) {
      const rueda_handle handle = start_sum(session, values, "w");
      expect(finish(handle).code == RUEDA_TIMEOUT, "the other rank's part of an abandoned operation did not time out");
    }
    expect_usable(session, "at the end");
    expect_code(sum(session, values, "w"), RUEDA_OK, "the name afterwards");
  });
}

TEST_CASE("abandoning a finished operation returns its result") {
  run_ranks(2, [](rueda_session* session, int) {
    std::vector<float> values = {1};
    const rueda_handle handle = start_sum(session, values, "w");
    expect_code(rueda_wait(handle, -1), RUEDA_OK, "wait");
    expect_code(rueda_abandon(handle, 0), RUEDA_OK, "abandon");
    expect_code(rueda_release(handle), RUEDA_OK, "release");
  });
}

TEST_CASE("a signal interrupts a wait and the operation can be waited for again") {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) {};  // without SA_RESTART
  sigaction(SIGUSR1, &action, &before);
  with_one_in_flight(1, [](rueda_session*, rueda_handle handle) {
    const pthread_t waiter = pthread_self();
    std::atomic<bool> interrupted = false;
    // Signals until one has arrived inside the wait: any that come before do nothing.
    std::thread sender([&] {
      while (!interrupted) {
        pthread_kill(waiter, SIGUSR1);
        std::this_thread::yield();
      }
    });
    const int32_t code = rueda_wait(handle, 100);
    interrupted = true;
    sender.join();
    expect_code(code, RUEDA_INTERRUPTED, "wait under signals");
    expect(rueda_poll(handle) == 0, "the operation is not in flight any more");
    expect_code(rueda_release(handle), RUEDA_OK, "release");
  });
  sigaction(SIGUSR1, &before, nullptr);
}

TEST_CASE("handles finish in whatever order each rank waits for them") {
  constexpr int kTensors = 40;
  run_ranks(3, [](rueda_session* session, int rank) {
    std::vector<std::vector<float>> values(kTensors, std::vector<float>(100, static_cast<float>(rank)));
    std::vector<rueda_handle> handles(kTensors);
    for (int k = 0; k < kTensors; ++k) {  // submitted in another order by each rank
      const size_t i = static_cast<size_t>((k * 7 + rank * 11) % kTensors);
      handles[i] = start_sum(session, values[i], ("w" + std::to_string(i)).c_str());
      expect(handles[i] != 0, rueda_last_error());
    }
    for (int k = 0; k < kTensors; ++k) {
      const size_t i = static_cast<size_t>((k * 3 + rank * 5) % kTensors);
      expect(finish(handles[i]).code == RUEDA_OK, "operation " + std::to_string(i));
      for (const float value : values[i]) expect(value == 3, "element of tensor " + std::to_string(i));
    }
  });
}

TEST_CASE("numbers of handles stay apart while some live long and others come and go in waves") {
  run_ranks(1, [](rueda_session* session, int) {
    const auto start = [&] {
      rueda_handle handle = 0;
      expect_code(rueda_barrier_async(session, nullptr, &handle), RUEDA_OK, "barrier");
      return handle;
    };
    const std::vector<rueda_handle> old = {start(), start(), start()};
    std::set<rueda_handle> known(old.begin(), old.end());
    std::vector<size_t> waves(1100, 1);  // more than the table has at first
    waves.insert(waves.end(), {700, core::kThorough ? size_t{20'000} : 2500, 40, 1500});
    for (const size_t wave : waves) {
      std::vector<rueda_handle> live;
      for (size_t i = 0; i < wave; ++i) live.push_back(start());
      for (const rueda_handle handle : live) expect(known.insert(handle).second, "a number was given twice");
      for (size_t i = 0; i < wave; ++i) {  // from both ends
        const rueda_handle handle = live[i % 2 == 0 ? i / 2 : wave - 1 - i / 2];
        expect_code(rueda_wait(handle, -1.0), RUEDA_OK, "wait");
        expect_code(rueda_release(handle), RUEDA_OK, "release");
        expect_code(rueda_release(handle), RUEDA_INVALID_ARGUMENT, "a second release");
      }
      for (const rueda_handle handle : old) expect_code(rueda_wait(handle, -1.0), RUEDA_OK, "wait for an old one");
    }
    for (const rueda_handle handle : old) expect_code(rueda_release(handle), RUEDA_OK, "release of an old one");
    for (const rueda_handle handle :
         {rueda_handle{0}, rueda_handle{-1}, rueda_handle{INT64_MAX}, rueda_handle{1} << 32})
      expect_code(rueda_wait(handle, 0), RUEDA_INVALID_ARGUMENT, "a number that was never given");
    expect(known.contains(start()) == false, "a number came again");
  });
}

}  // namespace rueda::test
