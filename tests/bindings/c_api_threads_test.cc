// Many threads of a rank at once, and what races with its end.
#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/bindings/operations.h"

namespace rueda::test {

TEST_CASE("several threads of each rank enqueue and wait at once") {
  constexpr int kThreads = 4;
  constexpr int kSteps = 60;
  run_ranks(2, [](rueda_session* session, int rank) {
    on_threads(kThreads, [&](int thread) {
      const std::string name = "thread" + std::to_string(thread);
      std::vector<float> values(100);
      for (int step = 0; step < kSteps; ++step) {
        std::fill(values.begin(), values.end(), static_cast<float>(rank + step + thread));
        if (step % 2 == 0) {
          expect_code(sum(session, values, name.c_str()), RUEDA_OK, name);
        } else {
          const Ending ending = finish(start_sum(session, values, name.c_str()));
          expect(ending.code == RUEDA_OK, ending.sentence);
        }
        const auto wanted = static_cast<float>(2 * (step + thread) + 1);
        for (const float value : values) expect(value == wanted, name + " in step " + std::to_string(step));
      }
    });
  });
}

TEST_CASE("unnamed operations are matched by the order of their calls") {
  run_ranks(3, [](rueda_session* session, int rank) {
    std::vector<std::vector<float>> values(50);
    std::vector<rueda_handle> handles;
    for (size_t i = 0; i < values.size(); ++i) {
      values[i].assign(i + 1, static_cast<float>(rank) + static_cast<float>(i));
      handles.push_back(start_sum(session, values[i], static_cast<const char*>(nullptr)));
      expect(handles.back() != 0, rueda_last_error());
    }
    for (size_t i = 0; i < values.size(); ++i) {
      const Ending ending = finish(handles[i]);
      expect(ending.code == RUEDA_OK && values[i][i] == static_cast<float>(3 + 3 * i),
             "call " + std::to_string(i) + ": " + ending.sentence);
    }
  });
}

TEST_CASE("a barrier among pending operations of every kind waits for those before it") {
  run_ranks(3, [](rueda_session* session, int rank) {
    for (int step = 0; step < 20; ++step) {
      std::vector<float> reduced(5000, 1);
      std::vector<float> copied(5000, static_cast<float>(rank));
      const CTensor tensor(copied, RUEDA_F32);
      const rueda_handle first = start_sum(session, reduced, "w");
      const rueda_op_options options = named("b");
      rueda_handle second = 0;
      rueda_handle barrier = 0;
      expect_code(rueda_broadcast_async(session, tensor.get(), tensor.get(), 2, &options, &second), RUEDA_OK,
                  "broadcast");
      expect_code(rueda_barrier_async(session, nullptr, &barrier), RUEDA_OK, "barrier");
      expect(finish(barrier).code == RUEDA_OK, "the barrier failed");
      expect(finish(first).code == RUEDA_OK && reduced[4999] == 3, "the sum");
      expect(finish(second).code == RUEDA_OK && copied[4999] == 2, "the broadcast");
    }
  });
}

TEST_CASE("enqueues that race a peer's shutdown end with a result or with SHUT_DOWN") {
  for (int round = 0; round < 10; ++round) {
    run_ranks(2, [&](rueda_session* session, int rank) {
      std::vector<float> values(10);
      const int leaves_after = rank == 0 ? 1000 : 5 + round * 3;
      for (int i = 0; i < leaves_after; ++i) {
        const rueda_handle handle = start_sum(session, values, "w");
        const int32_t code = handle == 0 ? rueda_last_error_code() : finish(handle).code;
        if (code == RUEDA_OK) continue;
        expect(rank == 0, "the rank that leaves last met an error");
        return expect_code(code, RUEDA_SHUT_DOWN, "a sum after the peer's goodbye");
      }
      expect(rank == 1, "rank 0 never noticed that rank 1 has left");
    });
  }
}

TEST_CASE("each thread has an error of its own") {
  run_ranks(1, [](rueda_session* session, int) {
    on_threads(4, [&](int thread) {
      std::vector<float> values(4);
      const CTensor tensor(values, 100 + thread);
      for (int i = 0; i < 200; ++i) {
        expect_code(rueda_allreduce(session, tensor.get(), tensor.get(), RUEDA_SUM, nullptr), RUEDA_INVALID_ARGUMENT,
                    "dtype");
        const std::string sentence = rueda_last_error();
        expect(sentence.find(std::to_string(100 + thread)) != std::string::npos,
               "another thread's sentence: " + sentence);
      }
    });
  });
}

}  // namespace rueda::test
