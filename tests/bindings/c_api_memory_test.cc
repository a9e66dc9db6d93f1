// Tensors in memory of rueda_memory_allocate: which algorithm takes them, what falls back, and how long they live.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/bindings/shared_floats.h"

namespace rueda::test {

TEST_CASE("Long tensors that all ranks have in shared memory are reduced in place, short ones in one shot") {
  run_ranks(3, [](rueda_session* session, int) {
    const Floats tensor(session, kInPlace);
    expect(tensor.shared(), "private memory");
    sum_in_place(session, tensor.data(), kInPlace, "long");
    sum_in_place(session, tensor.data() + 1, kInPlace - 7, "in the middle");
    expect(batches_of(session, "shm_shared") == 2, "not reduced in place");
    sum_in_place(session, tensor.data(), 1, "short");
    expect(batches_of(session, "shm_shared") == 2, "a short tensor was reduced in place");
  });
}

TEST_CASE("Input and output may be two tensors in shared memory, and the input stays as it was") {
  run_ranks(2, [](rueda_session* session, int rank) {
    const Floats in(session, kInPlace), out(session, kInPlace);
    in.fill(static_cast<float>(rank + 1));
    const Ending ending = finish(start_sum_of(session, in.data(), out.data(), kInPlace, named("apart")));
    expect(ending.code == RUEDA_OK, ending.sentence);
    expect_all(in.data(), kInPlace, static_cast<float>(rank + 1), "input");
    expect_all(out.data(), kInPlace, 3, "output");
    expect(batches_of(session, "shm_shared") == 1, "not reduced in place");
  });
}

TEST_CASE("Every kind of operation takes long tensors in shared memory where they lie, with the usual result") {
  run_ranks(3, [](rueda_session* session, int rank) {
    constexpr size_t kEach = 30'000;
    const auto value = [](int from, size_t i) { return static_cast<float>(from * 1000 + static_cast<int>(i % 97)); };
    const Floats tensor(session, 3 * kEach);
    std::vector<float> out(3 * kEach);
    const CTensor in(tensor.data(), RUEDA_F32, {3, static_cast<int64_t>(kEach)});
    const CTensor whole(out.data(), RUEDA_F32, {3, static_cast<int64_t>(kEach)});
    const CTensor one(tensor.data(), RUEDA_F32, {1, static_cast<int64_t>(kEach)});
    const CTensor row(out.data(), RUEDA_F32, {1, static_cast<int64_t>(kEach)});
    const auto fill = [&] {
      for (size_t i = 0; i < 3 * kEach; ++i) tensor.data()[i] = value(rank, i);
      std::fill(out.begin(), out.end(), -1.0F);
    };
    const auto holds = [&](const std::string& what, size_t count, const std::function<float(size_t)>& wanted) {
      for (size_t i = 0; i < count; ++i) expect(out[i] == wanted(i), what + ": element " + std::to_string(i));
      for (size_t i = 0; i < 3 * kEach; ++i) expect(tensor.data()[i] == value(rank, i), what + " changed its input");
    };
    const auto sum_at = [&](size_t i) { return value(0, i) + value(1, i) + value(2, i); };
    const auto mine = static_cast<size_t>(rank) * kEach;
    rueda_op_options options = named("kind");

    fill();
    expect_code(rueda_reducescatter(session, in.get(), row.get(), RUEDA_SUM, &options), RUEDA_OK, "reducescatter");
    holds("reducescatter", kEach, [&](size_t i) { return sum_at(mine + i); });
    fill();
    expect_code(rueda_reduce(session, in.get(), whole.get(), RUEDA_SUM, 1, &options), RUEDA_OK, "reduce");
    holds("reduce", 3 * kEach, [&](size_t i) { return rank == 1 ? sum_at(i) : -1; });
    fill();
    expect_code(rueda_broadcast(session, in.get(), whole.get(), 2, &options), RUEDA_OK, "broadcast");
    holds("broadcast", 3 * kEach, [&](size_t i) { return value(2, i); });
    fill();
    expect_code(rueda_allgather(session, one.get(), whole.get(), &options), RUEDA_OK, "allgather");
    holds("allgather", 3 * kEach, [&](size_t i) { return value(static_cast<int>(i / kEach), i % kEach); });
    fill();
    expect_code(rueda_alltoall(session, in.get(), nullptr, whole.get(), &options), RUEDA_OK, "alltoall");
    holds("alltoall", 3 * kEach, [&](size_t i) { return value(static_cast<int>(i / kEach), mine + i % kEach); });
    fill();
    expect_code(rueda_gather(session, one.get(), whole.get(), 0, &options), RUEDA_OK, "gather");
    holds("gather", 3 * kEach,
          [&](size_t i) { return rank == 0 ? value(static_cast<int>(i / kEach), i % kEach) : -1; });
    fill();
    expect_code(rueda_scatter(session, in.get(), nullptr, row.get(), 2, &options), RUEDA_OK, "scatter");
    holds("scatter", kEach, [&](size_t i) { return value(2, mine + i); });
    expect(batches_of(session, "shm_shared") == 7,
           "only " + std::to_string(batches_of(session, "shm_shared")) + " in place");
  });
}

TEST_CASE("If one rank's tensor is private the batch falls back, from one step to the next and back again") {
  run_ranks(3, [](rueda_session* session, int rank) {
    const Floats tensor(session, kInPlace);
    std::vector<float> own(kInPlace);
    long in_place = 0;
    for (int step = 0; step < 12; ++step) {
      const bool all_shared = step % 4 == 0 || step % 4 == 3;
      const bool mine = all_shared || rank != step % 3;
      sum_in_place(session, mine ? tensor.data() : own.data(), kInPlace, "weights");
      in_place += all_shared ? 1 : 0;
      expect(batches_of(session, "shm_shared") == in_place, "step " + std::to_string(step));
    }
  });
}

TEST_CASE("A group of tensors in both kinds of memory is right, whichever rank has which") {
  run_ranks(3, [](rueda_session* session, int rank) {
    constexpr size_t kTensors = 40;
    constexpr size_t kEach = 5000;
    const Floats shared(session, kTensors * kEach);
    std::vector<float> own(kTensors * kEach);
    for (int step = 0; step < 4; ++step) {
      const std::vector<int64_t> shape = {static_cast<int64_t>(kEach)};
      std::vector<rueda_tensor> tensors;
      for (size_t i = 0; i < kTensors; ++i) {
        const bool is_own = (i + static_cast<size_t>(step)) % 5 == 0 && rank == static_cast<int>(i % 3);
        float* const at = (is_own ? own.data() : shared.data()) + i * kEach;
        std::fill(at, at + kEach, static_cast<float>(rank) + static_cast<float>(i));
        tensors.push_back(*CTensor(at, RUEDA_F32, shape).get());
        tensors.back().shape = shape.data();
      }
      const rueda_op_options options = named("group");
      expect_code(
          rueda_grouped_allreduce(session, kTensors, tensors.data(), tensors.data(), nullptr, RUEDA_SUM, &options),
          RUEDA_OK, "group");
      for (size_t i = 0; i < kTensors; ++i) {
        expect_all(static_cast<float*>(tensors[i].data), kEach, 3 + 3 * static_cast<float>(i), "tensor of the group");
      }
    }
    expect(batches_of(session, "shm_shared") > 0, "nothing was reduced in place");
  });
}

TEST_CASE("Overlapping process sets reduce tensors in shared memory side by side") {
  run_ranks(3, [](rueda_session* session, int rank) {
    const std::vector<std::vector<int32_t>> lists = {{0, 1}, {1, 2}, {0, 2}, {0, 1, 2}};
    std::vector<int32_t> numbers(lists.size(), -1);
    for (size_t i = 0; i < lists.size(); ++i) {
      const std::string name = "set" + std::to_string(i);
      if (std::count(lists[i].begin(), lists[i].end(), rank) == 0) continue;
      expect_code(rueda_process_set_add(session, lists[i].size(), lists[i].data(), name.c_str(), &numbers[i]), RUEDA_OK,
                  "add");
    }
    const Floats all(session, lists.size() * kInPlace);
    for (int step = 0; step < 10; ++step) {
      for (size_t i = 0; i < lists.size(); ++i) {
        if (numbers[i] < 0) continue;
        sum_in_place(session, all.data() + i * kInPlace, kInPlace, "w" + std::to_string(i), numbers[i]);
      }
    }
    expect(batches_of(session, "shm_shared") >= 30, "not reduced in place");
  });
}

TEST_CASE("A rank that has joined has no tensors, so the others' go the usual way") {
  run_ranks(3, [](rueda_session* session, int rank) {
    const Floats tensor(session, kInPlace);
    sum_in_place(session, tensor.data(), kInPlace, "w");
    if (rank != 2) {
      tensor.fill(1);
      const Ending ending = finish(start_sum_of(session, tensor.data(), tensor.data(), kInPlace, named("w")));
      expect(ending.code == RUEDA_OK, ending.sentence);
      expect_all(tensor.data(), kInPlace, 2, "with one rank joined");
    }
    int32_t last = -1;
    expect_code(rueda_join(session, nullptr, &last), RUEDA_OK, "join");
    expect(batches_of(session, "shm_shared") == 1, "a batch with a joined rank was reduced in place");
  });
}

TEST_CASE("Memory that no rank could map is private and works the same, in a job of one and between hosts") {
  run_ranks(1, [](rueda_session* session, int) {
    const Floats tensor(session, kInPlace);
    expect(!tensor.shared(), "shared with nobody");
    sum_in_place(session, tensor.data(), kInPlace, "alone");
  });
  const std::vector<std::string> hosts = {"a", "a", "b"};
  run_ranks(hosts, [](rueda_session* session, int rank) {
    const Floats tensor(session, kInPlace);
    expect(tensor.shared() == (rank != 2), "wrong kind of memory");
    sum_in_place(session, tensor.data(), kInPlace, "two hosts");
    expect(batches_of(session, "shm_shared") == 0, "in place over two hosts");
  });
}

TEST_CASE("Memory outlives its session, is freed once, and a wrong call says what is wrong") {
  rueda_memory kept{};
  kept.struct_size = sizeof kept;
  run_ranks(2, [&](rueda_session* session, int rank) {
    rueda_memory memory{};
    expect_code(rueda_memory_allocate(session, 1, nullptr), RUEDA_INVALID_ARGUMENT, "no memory struct");
    expect_code(rueda_memory_allocate(session, 1, &memory), RUEDA_INVALID_ARGUMENT, "no struct_size");
    memory.struct_size = sizeof memory;
    expect_code(rueda_memory_allocate(nullptr, 1, &memory), RUEDA_NOT_INITIALIZED, "no session");
    if (rank == 0) expect_code(rueda_memory_allocate(session, 10'000, &kept), RUEDA_OK, "allocate");
  });
  REQUIRE(kept.bytes >= 10'000);
  std::memset(kept.data, 5, kept.bytes);
  // Another session does not share it.
  run_ranks(2, [&](rueda_session* session, int rank) {
    std::vector<float> own(2000, 1);
    float* const values = rank == 0 ? static_cast<float*>(kept.data) : own.data();
    sum_in_place(session, values, 2000, "after");
    expect(batches_of(session, "shm_shared") == 0, "memory of another session was shared");
  });
  CHECK(rueda_memory_free(static_cast<char*>(kept.data) + 4096) == RUEDA_INVALID_ARGUMENT);
  CHECK(rueda_memory_free(kept.data) == RUEDA_OK);
  CHECK(rueda_memory_free(kept.data) == RUEDA_INVALID_ARGUMENT);
  CHECK(std::string(rueda_last_error()).find("rueda_memory_allocate") != std::string::npos);
  CHECK(rueda_memory_free(nullptr) == RUEDA_OK);
}

}  // namespace rueda::test
