// All-gathers of equal parts by NCCL. GPUs and NCCL are stand-ins; the plug-in is the real one.
#include <catch2/catch.hpp>
#include <latch>
#include <memory>

#include "tests/ops/cuda/late_memory.h"
#include "tests/ops/cuda/nccl.h"

namespace rueda::test {
namespace {

rueda_op_options same_rows(const char* name, CUstream stream) {
  rueda_op_options options = on_stream(name, stream);
  options.same_rows = 1;
  return options;
}

/// What ranks 0 and 1 gather of `count` numbers each.
std::vector<float> numbers_of_both(size_t count) {
  std::vector<float> all = numbers(0, count);
  const std::vector<float> second = numbers(1, count);
  all.insert(all.end(), second.begin(), second.end());
  return all;
}

TEST_CASE("an all-gather of equal parts is one call of NCCL's, also from a part of its output") {
  StandinNccl& library = use_nccl();
  const int before = library.counts().gathers;
  run_ranks(2, [](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    for (const int64_t count : {1, 33, 100'000}) {
      const std::string what = std::to_string(count) + " rows each";
      const std::vector<float> expected = numbers_of_both(static_cast<size_t>(count));
      const GpuMemory<float> part(numbers(rank, static_cast<size_t>(count)));
      const GpuMemory<float> whole(static_cast<size_t>(2 * count));
      const GpuTensor from(part.data(), count, rank);
      const GpuTensor to(whole.data(), 2 * count, rank);
      const rueda_op_options options = same_rows("rows", stream.get());
      expect_code(rueda_allgather(session, from.get(), to.get(), &options), RUEDA_OK, what);
      expect(whole.values() == expected, what);

      std::vector<float> only_own(static_cast<size_t>(2 * count), -1.0f);
      std::copy_n(expected.begin() + rank * count, count, only_own.begin() + rank * count);
      const GpuMemory<float> in_place(only_own);
      const GpuTensor own(in_place.data() + rank * count, count, rank);
      const GpuTensor all(in_place.data(), 2 * count, rank);
      const int copies = gpu().counts().copies;
      expect_code(rueda_allgather(session, own.get(), all.get(), &options), RUEDA_OK, what + ", in place");
      expect(in_place.values() == expected, what + ", in place");
      expect(gpu().counts().copies == copies, "rows that lie where they belong were copied");
    }
    expect(batches_by_nccl(session) == 6, "NCCL has not gathered them");
  });
  CHECK(library.counts().gathers == before + 12);
  CHECK(library.counts().misuses == 0);
}

/// Blocks the lane that asks for the output.
struct HeldOutput {
  std::latch go{1};
  const GpuMemory<float> memory{300};
  static void* give(void* context, size_t, int32_t, int32_t, void*) {
    auto& self = *static_cast<HeldOutput*>(context);
    self.go.wait();
    return self.memory.data();
  }
};

/// Rank 1's lane is held up in the batch before, so what it would have to tell cannot come. These are the first batches
/// of their set, of which two may be under way.
TEST_CASE("a rank launches an all-gather of equal parts without a word of the others") {
  StandinNccl& library = use_nccl();
  std::latch launched(1);
  run_ranks(2, [&](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    HeldOutput held;
    if (rank == 0) held.go.count_down();
    const GpuMemory<float> part(numbers(rank, 100));
    const GpuMemory<float> whole(200);
    const GpuTensor uneven(part.data(), 50 + 50 * rank, rank);
    const GpuTensor from(part.data(), 100, rank);
    const GpuTensor to(whole.data(), 200, rank);
    rueda_op_options options = on_stream("uneven", stream.get());
    options.allocate = &HeldOutput::give;
    options.allocate_context = &held;
    rueda_handle first = 0;
    rueda_handle second = 0;
    expect_code(rueda_allgather_async(session, uneven.get(), nullptr, &options, &first), RUEDA_OK, "uneven");
    // Alone in its batch: what is not launched yet would be launched together.
    expect(rank == 1 || rueda_wait_stream(first, stream.get(), -1) == RUEDA_OK, "the first is launched on rank 0");
    const rueda_op_options equal = same_rows("equal", stream.get());
    expect_code(rueda_allgather_async(session, from.get(), to.get(), &equal, &second), RUEDA_OK, "equal");
    int32_t code = RUEDA_OK;
    if (rank == 0) {
      code = rueda_wait_stream(second, stream.get(), 30);
      launched.count_down();
    } else {
      launched.wait();
      held.go.count_down();
    }
    expect_done(first, "uneven");
    expect_done(second, "equal");
    expect(code == RUEDA_OK, "rank 0 has not launched equal parts while rank 1 was held up");
    expect(whole.values() == numbers_of_both(100), "equal parts");
    std::vector<float> wanted = numbers(0, 50);
    const std::vector<float> more = numbers(1, 100);
    wanted.insert(wanted.end(), more.begin(), more.end());
    std::vector<float> seen = held.memory.values();
    seen.resize(150);
    expect(seen == wanted, "uneven parts");
  });
  CHECK(library.counts().misuses == 0);
}

/// Long lists of other calls are cut into groups of 64. These are 80 on each rank, all of one's sends before its
/// receives, and each message is longer than what a send can leave behind.
TEST_CASE("a batch of rows in any number is one group of NCCL's: sends meet the receives behind them") {
  StandinNccl& library = use_nccl();
  run_ranks(2, [](rueda_session* session, int rank) {
    constexpr int64_t kTensors = 40;
    const auto rows_of = [](int64_t tensor, int of) { return 10'000 + 100 * tensor + of; };
    const GpuStream stream(rank);
    std::vector<std::unique_ptr<GpuMemory<float>>> parts;
    std::vector<std::unique_ptr<GpuMemory<float>>> wholes;
    std::vector<std::unique_ptr<GpuTensor>> tensors;
    std::vector<rueda_tensor> inputs;
    std::vector<rueda_tensor> outputs;
    for (int64_t i = 0; i < kTensors; ++i) {
      const int64_t all = rows_of(i, 0) + rows_of(i, 1);
      parts.push_back(std::make_unique<GpuMemory<float>>(numbers(rank, static_cast<size_t>(rows_of(i, rank)))));
      wholes.push_back(std::make_unique<GpuMemory<float>>(static_cast<size_t>(all)));
      tensors.push_back(std::make_unique<GpuTensor>(parts.back()->data(), rows_of(i, rank), rank));
      inputs.push_back(*tensors.back()->get());
      tensors.push_back(std::make_unique<GpuTensor>(wholes.back()->data(), all, rank));
      outputs.push_back(*tensors.back()->get());
    }
    rueda_op_options options = on_stream("many", stream.get());
    options.timeout_seconds = 60;  // sends that wait for receives in a later group would wait for ever
    expect_code(rueda_grouped_allgather(session, inputs.size(), inputs.data(), outputs.data(), nullptr, &options),
                RUEDA_OK, "many rows");
    for (int64_t i = 0; i < kTensors; ++i) {
      std::vector<float> expected = numbers(0, static_cast<size_t>(rows_of(i, 0)));
      const std::vector<float> more = numbers(1, static_cast<size_t>(rows_of(i, 1)));
      expected.insert(expected.end(), more.begin(), more.end());
      expect(wholes[static_cast<size_t>(i)]->values() == expected, "rows of tensor " + std::to_string(i));
    }
    expect(batches_by_nccl(session) == 1, "the rows went in several batches, or not by NCCL");
  });
  CHECK(library.counts().misuses == 0);
}

/// Rank 0's memory is in use until it says so. Before that it takes part in nothing, so rank 1 gets none of its rows.
TEST_CASE("rows come into late memory behind what its stream did before it was handed out") {
  StandinNccl& library = use_nccl();
  const int64_t of_first = GENERATE(100, 50);  // equal parts, and others
  std::latch waited(1);
  run_ranks(2, [&](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    const int64_t count = rank == 0 ? of_first : 100;
    const GpuMemory<float> part(numbers(rank, static_cast<size_t>(count)));
    const GpuMemory<float> whole(static_cast<size_t>(of_first) + 100);
    const GpuTensor from(part.data(), count, rank);
    std::latch go(rank == 0 ? 1 : 0);
    LateMemory late{&whole, stream.get(), &go};
    rueda_op_options options = of_first == 100 ? same_rows("late", stream.get()) : on_stream("late", stream.get());
    options.allocate = hand_out;
    options.allocate_context = &late;
    rueda_handle handle = 0;
    expect_code(rueda_allgather_async(session, from.get(), nullptr, &options, &handle), RUEDA_OK, "enqueue");
    const GpuStream other(rank);
    const int32_t launched = rueda_wait_stream(handle, other.get(), -1.0);
    int32_t early = RUEDA_TIMEOUT;
    if (rank == 1) {
      early = rueda_wait(handle, 0.1);
      waited.count_down();
    } else {
      waited.wait();
      go.count_down();
    }
    expect_done(handle, "late");
    gpu().drain(stream.get());
    expect_code(launched, RUEDA_OK, "launched");
    expect_code(early, RUEDA_TIMEOUT, "rows before rank 0's memory was free");
    std::vector<float> expected = numbers(0, static_cast<size_t>(of_first));
    const std::vector<float> more = numbers(1, 100);
    expected.insert(expected.end(), more.begin(), more.end());
    expect(whole.values() == expected, "rows in late memory");
    expect(batches_by_nccl(session) == 1, "NCCL has not gathered them");
  });
  CHECK(library.counts().misuses == 0);
}

TEST_CASE("a rank that does not take the rows of an all-gather of equal parts fails alone") {
  use_nccl();
  run_ranks(2, [](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    const GpuMemory<float> part(numbers(rank, 10));
    const GpuMemory<float> whole(21);
    const GpuTensor from(part.data(), 10, rank);
    const GpuTensor to(whole.data(), rank == 1 ? 21 : 20, rank);
    const rueda_op_options options = same_rows("rows", stream.get());
    const int32_t code = rueda_allgather(session, from.get(), to.get(), &options);
    expect_code(code, rank == 1 ? RUEDA_INVALID_ARGUMENT : RUEDA_OK, "rows");
    std::vector<float> seen = whole.values();
    seen.resize(20);
    expect(rank == 1 || seen == numbers_of_both(10), "the rows of rank 0");
    expect_done(sum_on_gpu(session, part, 10, "after it", stream.get(), rank), "after it");
  });
}

}  // namespace
}  // namespace rueda::test
