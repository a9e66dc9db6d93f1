// Inputs that peers see before their batch is agreed: what a caller sees of it, which is nothing.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/support/rank_threads.h"
#include "tests/support/scale.h"

namespace rueda::test {
namespace {

rueda_handle begin_sum(rueda_session* session, const char* name, std::vector<float>& elements) {
  const CTensor tensor(elements, RUEDA_F32);
  const rueda_op_options options = named(name);
  rueda_handle handle = 0;
  expect_code(rueda_allreduce_async(session, tensor.get(), tensor.get(), RUEDA_SUM, &options, &handle), RUEDA_OK, name);
  return handle;
}

void require_end(rueda_handle handle, int32_t code, const std::string& what) {
  expect_code(rueda_wait(handle, -1), code, what);
  rueda_release(handle);
}

}  // namespace

TEST_CASE("an input that failed is not taken for the next one of its name") {
  run_ranks(2, [](rueda_session* session, int rank) {
    for (int i = 0; i < 3; ++i) {
      std::vector<float> one{1};
      require_end(begin_sum(session, "a", one), RUEDA_OK, "before");
    }
    // Rank 1 shows 100, but rank 0 sends another shape.
    std::vector<float> old = rank == 1 ? std::vector<float>{100} : std::vector<float>{1, 1};
    require_end(begin_sum(session, "a", old), RUEDA_MISMATCH, "the one that fails");
    // No batch has come since. With another tensor in agreement rank 1 shows nothing for the next one.
    std::vector<float> other{1};
    std::vector<float> next{rank == 1 ? 7.0f : 1.0f};
    rueda_handle pending = rank == 1 ? begin_sum(session, "b", other) : 0;
    require_end(begin_sum(session, "a", next), RUEDA_OK, "the next one");
    expect(next[0] == 8, "the sum is " + std::to_string(next[0]));
    if (rank == 0) pending = begin_sum(session, "b", other);
    require_end(pending, RUEDA_OK, "the other one");
    expect(other[0] == 2, "the other sum is " + std::to_string(other[0]));
  });
}

TEST_CASE("a rank that has joined adds nothing of what it showed for an operation that failed") {
  run_ranks(2, [](rueda_session* session, int rank) {
    for (int round = 0; round < core::scaled_down(400); ++round) {
      for (int i = 0; i < 3; ++i) {
        std::vector<float> one{1};
        require_end(begin_sum(session, "a", one), RUEDA_OK, "before");
      }
      std::vector<float> failing = rank == 1 ? std::vector<float>{100} : std::vector<float>{1, 1};
      const rueda_handle failed = begin_sum(session, "a", failing);
      rueda_handle joined = 0;
      if (rank == 1) expect_code(rueda_join_async(session, nullptr, &joined), RUEDA_OK, "join");
      require_end(failed, RUEDA_MISMATCH, "the one that fails");
      if (rank == 0) {
        std::vector<float> alone{3};
        require_end(begin_sum(session, "a", alone), RUEDA_OK, "without rank 1");
        expect(alone[0] == 3, "the sum is " + std::to_string(alone[0]));
        expect_code(rueda_join_async(session, nullptr, &joined), RUEDA_OK, "join");
      }
      require_end(joined, RUEDA_OK, "the join");
    }
  });
}

TEST_CASE("small tensors one after the other get their own sums, whatever their names, types and lengths") {
  run_ranks(3, [](rueda_session* session, int rank) {
    for (int i = 0; i < 400; ++i) {
      const std::string name = "n" + std::to_string(i * i % 5);
      std::vector<float> elements(static_cast<size_t>(1 + i * i % 5 * 4), static_cast<float>(i + rank));
      require_end(begin_sum(session, name.c_str(), elements), RUEDA_OK, name);
      for (const float element : elements) {
        expect(element == static_cast<float>(3 * i + 3),
               "operation " + std::to_string(i) + ": " + std::to_string(element));
      }
    }
  });
}

}  // namespace rueda::test
