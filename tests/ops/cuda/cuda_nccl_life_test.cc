// How work of NCCL's ends: by itself, by a fault, by a shutdown, late. GPUs and NCCL are stand-ins.
#include <barrier>
#include <catch2/catch.hpp>
#include <cstring>
#include <latch>

#include "tests/ops/cuda/nccl.h"
#include "tests/support/rank_processes.h"

namespace rueda::test {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("long messages go both ways at once, also if each rank sends all of its own before it receives") {
  StandinNccl& library = use_nccl();
  run_ranks(2, [](rueda_session* session, int rank) {
    constexpr int64_t kCount = 200'000;
    constexpr int kMessages = 4;
    const GpuStream stream(rank);
    std::vector<std::unique_ptr<GpuMemory<float>>> memory;
    std::vector<rueda_handle> handles(2 * kMessages);
    const auto options_of = [&](int message) {
      static const char* const names[] = {"m0", "m1", "m2", "m3"};
      rueda_op_options options = on_stream(names[message], stream.get());
      options.timeout_seconds = 60;  // sends that wait for receives behind them would wait for ever
      return options;
    };
    for (int i = 0; i < kMessages; ++i) {
      memory.push_back(
          std::make_unique<GpuMemory<float>>(numbers(rank * kMessages + i, static_cast<size_t>(kCount + i))));
      const GpuTensor sent(memory.back()->data(), kCount + i, rank);
      const rueda_op_options options = options_of(i);
      expect_code(rueda_send_async(session, sent.get(), 1 - rank, &options, &handles[static_cast<size_t>(i)]), RUEDA_OK,
                  "send");
    }
    std::vector<std::unique_ptr<GpuMemory<float>>> arrived;
    for (int i = 0; i < kMessages; ++i) {
      arrived.push_back(std::make_unique<GpuMemory<float>>(static_cast<size_t>(kCount + i)));
      const GpuTensor received(arrived.back()->data(), kCount + i, rank);
      const rueda_op_options options = options_of(i);
      expect_code(rueda_recv_async(session, received.get(), 1 - rank, &options, handles.data() + kMessages + i),
                  RUEDA_OK, "receive");
    }
    for (const rueda_handle handle : handles) expect_done(handle, "a message");
    for (int i = 0; i < kMessages; ++i) {
      const std::vector<float> wanted = numbers((1 - rank) * kMessages + i, static_cast<size_t>(kCount + i));
      expect(arrived[static_cast<size_t>(i)]->values() == wanted, "message " + std::to_string(i) + " is wrong");
    }
    expect(batches_by_nccl(session) >= 2, "NCCL has not moved them");
  });
  CHECK(library.counts().misuses == 0);
}

TEST_CASE("a batch is launched while the GPU works on the one before, and a third is not") {
  use_nccl();
  run_ranks(2, [](rueda_session* session, int rank) {
    constexpr int64_t kCount = 7'000'000;  // more than a batch on a device takes
    const GpuStream stream(rank);
    const GpuStream waiting(rank);
    const GpuMemory<float> first(kCount);
    const GpuMemory<float> second(kCount);
    const GpuMemory<float> third(kCount);
    const GpuMemory<float>* const memory[] = {&first, &second, &third};
    for (int i = 0; i < 3; ++i) expect_done(sum_on_gpu(session, first, 10, "before", stream.get(), rank), "before");
    std::latch go(1);
    gpu().launch(stream.get(), [&go] { go.wait(); });
    rueda_handle handles[3] = {};
    for (int i = 0; i < 3; ++i) {
      const std::string name = "w" + std::to_string(i);
      handles[i] = sum_on_gpu(session, *memory[i], kCount, name.c_str(), stream.get(), rank);
    }
    const int32_t codes[] = {rueda_wait_stream(handles[0], waiting.get(), 60.0),
                             rueda_wait_stream(handles[1], waiting.get(), 60.0),
                             rueda_wait_stream(handles[2], waiting.get(), 0.0)};
    go.count_down();
    for (const rueda_handle handle : handles) expect_done(handle, "a batch");
    expect_code(codes[0], RUEDA_OK, "the first is launched");
    expect_code(codes[1], RUEDA_OK, "the second is launched behind it");
    expect_code(codes[2], RUEDA_TIMEOUT, "the third waits for a credit");
  });
}

/// Ends what it began, also if an expectation fails.
struct Healed {
  ~Healed() { gpu().heal(); }
};

TEST_CASE("a fault in a kernel of NCCL's names call, device and tensor, and ends the epoch; a new session works") {
  StandinNccl& library = use_nccl();
  const Healed healed;
  std::barrier both(2);
  run_ranks(2, [&](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    const GpuMemory<float> memory(numbers(rank, 1000));
    expect_done(sum_on_gpu(session, memory, 1000, "before", stream.get(), rank), "before");
    std::latch go(1);
    if (rank == 1) gpu().launch(stream.get(), [&go] { go.wait(); });
    const rueda_handle handle = sum_on_gpu(session, memory, 1000, "faulty", stream.get(), rank);
    expect_code(rueda_wait_stream(handle, stream.get(), -1), RUEDA_OK, "launched");
    both.arrive_and_wait();
    // A fault shows in the calls behind it, all of them.
    if (rank == 0) gpu().fail("cuEventQuery", 1, CUDA_ERROR_ILLEGAL_ADDRESS, true);
    both.arrive_and_wait();
    go.count_down();
    const Ending ending = test::finish(handle);
    expect(ending.code != RUEDA_OK, "the sum succeeded");
    for (const char* part : {"\"faulty\"", "device cuda number ", "cuEventQuery: an illegal memory access was",
                             "CUDA_ERROR_ILLEGAL_ADDRESS"}) {
      expect(ending.sentence.find(part) != std::string::npos, ending.sentence + " does not say " + part);
    }
    expect(rueda_session_status(session) != RUEDA_OK, "the epoch goes on");
    gpu().drain(stream.get());
  });
  gpu().heal();
  run_ranks(2, [](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    const GpuMemory<float> memory(numbers(rank, 1000));
    expect_done(sum_on_gpu(session, memory, 1000, "after", stream.get(), rank), "after");
    expect_sums(memory.values(), 2, "after");
    expect(batches_by_nccl(session) == 1, "NCCL is not used any more");
  });
  CHECK(library.counts().alive == 0);
  CHECK(library.counts().misuses == 0);
}

TEST_CASE("a shutdown while NCCL works ends its communicators in order, and what is in flight is right") {
  StandinNccl& library = use_nccl();
  const int aborts = library.counts().aborts;
  constexpr int64_t kCount = 100'000;
  constexpr size_t kSums = 2;  // as many batches of a set may be under way at first
  std::vector<std::unique_ptr<GpuMemory<float>>> memory(2 * kSums);
  std::vector<rueda_handle> handles(2 * kSums);
  const GpuStream streams[] = {GpuStream(0), GpuStream(1)};
  std::latch held(1);
  std::barrier both(2);
  run_ranks(2, [&](rueda_session* session, int rank) {
    CUstream stream = streams[rank].get();
    gpu().launch(stream, [&held] { held.wait(); });
    for (size_t i = 0; i < kSums; ++i) {
      const size_t at = static_cast<size_t>(rank) * kSums + i;
      memory[at] = std::make_unique<GpuMemory<float>>(numbers(rank, kCount));
      handles[at] = sum_on_gpu(session, *memory[at], kCount, ("sum " + std::to_string(i)).c_str(), stream, rank);
    }
    for (size_t i = 0; i < kSums; ++i) {
      const rueda_handle handle = handles[static_cast<size_t>(rank) * kSums + i];
      expect_code(rueda_wait_stream(handle, stream, -1), RUEDA_OK, "launched");
    }
    expect(rueda_poll(handles[static_cast<size_t>(rank) * kSums]) == 0, "the first sum is finished before its input");
    both.arrive_and_wait();
    if (rank == 0) held.count_down();
  });
  for (const rueda_handle handle : handles) expect_done(handle, "in flight at the shutdown");
  for (const auto& each : memory) expect_sums(each->values(), 2, "in flight at the shutdown");
  CHECK(library.counts().alive == 0);
  CHECK(library.counts().aborts == aborts);
  CHECK(library.counts().misuses == 0);
}

void report_stall(void*, int32_t, const char* line) {
  if (std::strstr(line, " is running: ") != nullptr) rank_report(std::string("running ") + line);
  // A report may come while one rank has not launched its batch; later ones name both.
  const bool both = std::strstr(line, "ranks 0-1 ") != nullptr;
  if (both && std::strstr(line, "launched and not finished") != nullptr) rank_report(std::string("waits ") + line);
}

TEST_CASE("rank: a sum that rank 1's GPU does not begin", "[.]") {
  use_nccl();
  rueda_set_log_callback(report_stall, nullptr);
  rueda_session* session = nullptr;
  expect_code(rueda_init(nullptr, &session), RUEDA_OK, "init");
  const int rank = rueda_rank(session);
  {
    const GpuStream stream(rank);
    const GpuMemory<float> memory(numbers(rank, 100));
    std::latch go(1);
    if (rank == 1) gpu().launch(stream.get(), [&go] { go.wait(); });
    const rueda_handle handle = sum_on_gpu(session, memory, 100, "held", stream.get(), rank);
    if (rank == 1) rank_await();
    go.count_down();
    expect_done(handle, "held");
    expect_sums(memory.values(), 2, "held");
  }
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

TEST_CASE("a stall report says of a batch that a GPU does not finish that it waits for the device") {
  RankProcesses ranks({.size = 2,
                       .body = "rank: a sum that rank 1's GPU does not begin",
                       .variables = {{"RUEDA_STALL_CHECK_TIME_SECONDS", "0.2"}}});
  CHECK_THAT(ranks.await(0, "running"), Contains("allreduce \"held\"") && Contains("started by ranks 0-1"));
  CHECK_THAT(ranks.await(0, "waits"),
             Contains("ranks 0-1") && Contains("its device, on which the batch is launched and not finished"));
  ranks.tell(1, "go on");
  for (const RankOutcome& outcome : ranks.finish()) {
    INFO(outcome.output);
    CHECK(outcome.exit_code == 0);
  }
}

}  // namespace
}  // namespace rueda::test
