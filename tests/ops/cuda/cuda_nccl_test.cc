// Sums on GPUs by NCCL. GPUs and NCCL are stand-ins; the plug-in is the real one.
#include <catch2/catch.hpp>
#include <limits>
#include <mutex>

#include "tests/bindings/submission.h"
#include "tests/ops/cuda/nccl.h"
#include "tests/support/rank_processes.h"

namespace rueda::test {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("sums on GPUs are NCCL's, one tensor or many, of any length") {
  StandinNccl& library = use_nccl();
  run_ranks(2, [&](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    const std::vector<int64_t> counts = {1, 0, 100'000, 33, 7, 2'000'003};
    std::vector<std::unique_ptr<GpuMemory<float>>> memory;
    std::vector<rueda_handle> handles;
    for (int i = 0; i < 150; ++i) {
      const int64_t count = i < 6 ? counts[static_cast<size_t>(i)] : i % 5;
      memory.push_back(std::make_unique<GpuMemory<float>>(numbers(rank, static_cast<size_t>(count))));
      handles.push_back(
          sum_on_gpu(session, *memory.back(), count, ("t" + std::to_string(i)).c_str(), stream.get(), rank));
    }
    for (const rueda_handle handle : handles) expect_done(handle, "sum");
    for (const auto& each : memory) expect_sums(each->values(), 2, "by NCCL");
    expect(batches_by_nccl(session) > 0, "NCCL has run no batch");
  });
  CHECK(library.counts().alive == 0);
  CHECK(library.counts().misuses == 0);
  CHECK(library.counts().operators == 0);
}

/// The sum of two ranks' small whole numbers, as NCCL and as the host gives it.
template <typename T>
void expect_as_on_host(rueda_session* session, int rank, int32_t dtype, int32_t op, double prescale, T first, T second,
                       int32_t codec = RUEDA_CODEC_NONE) {
  const GpuStream stream(rank);
  std::vector<T> values = {rank == 0 ? first : second, second, rank == 0 ? second : first, first};
  const GpuMemory<T> memory(values);
  CTensor on_gpu(memory.data(), dtype, {2});
  on_gpu->device = RUEDA_DEVICE_CUDA;
  on_gpu->device_index = rank;
  CTensor on_host(values.data(), dtype, {2});
  rueda_op_options options = on_stream("as on the host", stream.get());
  options.has_scale = 1;
  options.prescale = prescale;
  options.codec = codec;
  expect_code(rueda_allreduce(session, on_gpu.get(), on_gpu.get(), op, &options), RUEDA_OK, "on the GPU");
  expect_code(rueda_allreduce(session, on_host.get(), on_host.get(), op, &options), RUEDA_OK, "on the host");
  expect(memory.values() == values, "type " + std::to_string(dtype) + ", operator " + std::to_string(op));
}

TEST_CASE("each type and operator gives what the host gives, by NCCL or not") {
  use_nccl();
  run_ranks(2, [](rueda_session* session, int rank) {
    for (const int32_t op : {RUEDA_SUM, RUEDA_PRODUCT, RUEDA_MIN, RUEDA_MAX}) {
      expect_as_on_host<uint8_t>(session, rank, RUEDA_U8, op, 1, 3, 7);
      expect_as_on_host<int8_t>(session, rank, RUEDA_I8, op, 1, -3, 7);
      expect_as_on_host<int16_t>(session, rank, RUEDA_I16, op, 1, -3, 7);
      expect_as_on_host<uint32_t>(session, rank, RUEDA_U32, op, 1, 3, 7);
      expect_as_on_host<int32_t>(session, rank, RUEDA_I32, op, 1, -3, 7);
      expect_as_on_host<uint64_t>(session, rank, RUEDA_U64, op, 1, 3, uint64_t{1} << 60);
      expect_as_on_host<int64_t>(session, rank, RUEDA_I64, op, 1, -3, int64_t{1} << 60);
      expect_as_on_host<float>(session, rank, RUEDA_F32, op, 1, -3, 7);
      expect_as_on_host<double>(session, rank, RUEDA_F64, op, 1, -3, 7);
      expect_as_on_host<uint16_t>(session, rank, RUEDA_F16, op, 1, 0x3c00, 0x4000);   // 1 and 2
      expect_as_on_host<uint16_t>(session, rank, RUEDA_BF16, op, 1, 0x3f80, 0x4000);  // 1 and 2
    }
    const long before = batches_by_nccl(session);
    for (const double prescale : {1.0, 4.0}) {
      expect_as_on_host<float>(session, rank, RUEDA_F32, RUEDA_AVERAGE, prescale, -4, 8);
      expect_as_on_host<double>(session, rank, RUEDA_F64, RUEDA_AVERAGE, prescale, -4, 8);
      expect_as_on_host<uint16_t>(session, rank, RUEDA_F16, RUEDA_AVERAGE, prescale, 0x3c00, 0x4200);
      expect_as_on_host<uint16_t>(session, rank, RUEDA_BF16, RUEDA_AVERAGE, prescale, 0x3f80, 0x4040);
    }
    const long averages = batches_by_nccl(session);  // without kernels some of them are the host's
    expect(averages == before + 8 || (RUEDA_TEST_KERNELS == 0 && averages > before), "NCCL has not run the averages");
    expect_as_on_host<int32_t>(session, rank, RUEDA_I32, RUEDA_BAND, 1, 4, 12);
    expect_as_on_host<float>(session, rank, RUEDA_F32, RUEDA_MAX, 1, 4, 12);
    expect(batches_by_nccl(session) == averages, "NCCL has run what it does not compute as the host does");
  });
}

TEST_CASE("kernels let NCCL average integers, scale them, and add types that it does not know, and in codecs") {
  use_nccl();
  run_ranks(2, [](rueda_session* session, int rank) {
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    for (const double prescale : {1.0, -0.5}) {
      expect_as_on_host<uint8_t>(session, rank, RUEDA_U8, RUEDA_AVERAGE, prescale, 251, 254);
      expect_as_on_host<int8_t>(session, rank, RUEDA_I8, RUEDA_AVERAGE, prescale, -127, -124);
      expect_as_on_host<int16_t>(session, rank, RUEDA_I16, RUEDA_SUM, prescale, -3, 32'766);
      expect_as_on_host<uint16_t>(session, rank, RUEDA_U16, RUEDA_MIN, prescale, 3, 65'533);
      expect_as_on_host<uint32_t>(session, rank, RUEDA_U32, RUEDA_AVERAGE, prescale, 4'000'000'001, 4'000'000'006);
      expect_as_on_host<int32_t>(session, rank, RUEDA_I32, RUEDA_SUM, prescale, -9, 8);
      expect_as_on_host<uint64_t>(session, rank, RUEDA_U64, RUEDA_AVERAGE, prescale, ~uint64_t{0}, 5);
      expect_as_on_host<int64_t>(session, rank, RUEDA_I64, RUEDA_AVERAGE, prescale, kMost, kMost - 4);
      expect_as_on_host<int64_t>(session, rank, RUEDA_I64, RUEDA_PRODUCT, prescale, 5, kMost);
      expect_as_on_host<uint8_t>(session, rank, RUEDA_BOOL, RUEDA_SUM, prescale, 0, 1);
      expect_as_on_host<uint8_t>(session, rank, RUEDA_BOOL, RUEDA_PRODUCT, prescale, 1, 0);
      for (const int32_t codec : {RUEDA_CODEC_FP16, RUEDA_CODEC_BF16}) {
        expect_as_on_host<float>(session, rank, RUEDA_F32, RUEDA_AVERAGE, prescale, -4, 8.015625f, codec);
        expect_as_on_host<double>(session, rank, RUEDA_F64, RUEDA_SUM, prescale, 1.0 / 3, 0, codec);
      }
    }
    const long batches = batches_by_nccl(session);
    expect(RUEDA_TEST_KERNELS == 0 || batches == 30, "NCCL has run " + std::to_string(batches) + " batches");
  });
}

TEST_CASE("a rank alone neither calls NCCL nor copies, packs or launches what stays as it is") {
  StandinNccl& library = use_nccl();
  const int made = library.counts().made;
  run_ranks(1, [](rueda_session* session, int) {
    const GpuStream stream(0);
    const GpuMemory<float> memory(std::vector<float>(100'000, -1.0f));
    const GpuTensor tensor(memory.data(), 100'000, 0);
    rueda_op_options options = on_stream("alone", stream.get());
    const StandinCounts before = gpu().counts();
    std::latch go(1);
    gpu().launch(stream.get(), [&] {
      go.wait();
      const std::vector<float> values = numbers(0, 100'000);
      std::copy(values.begin(), values.end(), memory.kernels());
    });
    rueda_handle handle = 0;
    expect_code(rueda_allreduce_async(session, tensor.get(), tensor.get(), RUEDA_AVERAGE, &options, &handle), RUEDA_OK,
                "enqueue");
    const GpuStream other(0);
    expect_code(rueda_wait_stream(handle, other.get(), -1.0), RUEDA_OK, "wait_stream");
    expect(rueda_poll(handle) == 0, "the mean was finished before its input was there");
    std::vector<float> seen;
    gpu().launch(other.get(), [&] { seen = memory.values(); });
    go.count_down();
    gpu().drain(other.get());
    expect_sums(seen, 1, "seen behind the wait");
    expect_done(handle, "alone");
    expect_code(rueda_broadcast(session, tensor.get(), tensor.get(), 0, &options), RUEDA_OK, "broadcast");
    const StandinCounts after = gpu().counts();
    expect(after.copies == before.copies && after.kernels == before.kernels, "something was copied or launched");
    const GpuMemory<float> elsewhere(100'000);
    const GpuTensor output(elsewhere.data(), 100'000, 0);
    expect_code(rueda_allreduce(session, tensor.get(), output.get(), RUEDA_SUM, &options), RUEDA_OK, "elsewhere");
    expect_sums(elsewhere.values(), 1, "elsewhere");
    expect(gpu().counts().copies == after.copies + 1, "an output elsewhere is one copy");
  });
  CHECK(library.counts().made == made);
}

TEST_CASE("a rank alone gets scaled sums, means of integers, codecs and truth values as on the host") {
  use_nccl();
  run_ranks(1, [](rueda_session* session, int rank) {
    for (const double prescale : {1.0, -0.5}) {
      expect_as_on_host<float>(session, rank, RUEDA_F32, RUEDA_SUM, prescale, 3, 7);
      expect_as_on_host<int32_t>(session, rank, RUEDA_I32, RUEDA_AVERAGE, prescale, -9, 8);
      expect_as_on_host<float>(session, rank, RUEDA_F32, RUEDA_SUM, prescale, 0.1f, 7, RUEDA_CODEC_FP16);
      expect_as_on_host<uint8_t>(session, rank, RUEDA_BOOL, RUEDA_SUM, prescale, 0, 7);
    }
  });
}

TEST_CASE("every kind of operation is NCCL's") {
  use_nccl();
  run_ranks(2, [](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    const GpuMemory<float> memory(numbers(rank, 100));
    long expected = 0;
    for (const Submission::Kind kind : kAllKinds) {
      const Submission submission{.kind = kind, .shape = {6, 3}, .device = RUEDA_DEVICE_CUDA, .device_index = rank};
      if (kind == Submission::Kind::kBarrier || !submission.concerns(rank)) continue;
      rueda_handle handle = 0;
      const rueda_op_options options = on_stream(core::name_of(kind), stream.get());
      expect_code(enqueue(session, submission, memory.data(), options, &handle), RUEDA_OK, core::name_of(kind));
      expect_done(handle, core::name_of(kind));
      expect(batches_by_nccl(session) == ++expected, std::string(core::name_of(kind)) + " has gone another way");
    }
  });
}

TEST_CASE("ranks send each other more than NCCL holds for a message, all at once") {
  use_nccl();
  run_ranks(2, [](rueda_session* session, int rank) {
    constexpr int64_t kCount = 100'000;
    const GpuStream stream(rank);
    const GpuMemory<float> rows(numbers(rank, kCount));
    const GpuMemory<float> arrived(kCount);
    const GpuTensor from(rows.data(), kCount, rank);
    const GpuTensor to(arrived.data(), kCount, rank);
    rueda_op_options options = on_stream("both ways", stream.get());
    options.timeout_seconds = 60;  // sends that wait for receives behind them would wait for ever
    expect_code(rueda_alltoall(session, from.get(), nullptr, to.get(), &options), RUEDA_OK, "all-to-all");
    std::vector<float> expected;
    for (const int other : {0, 1}) {
      const std::vector<float> all = numbers(other, kCount);
      expected.insert(expected.end(), all.begin() + rank * (kCount / 2), all.begin() + (rank + 1) * (kCount / 2));
    }
    expect(arrived.values() == expected, "rows that came are wrong");
    expect(batches_by_nccl(session) == 1, "NCCL has not sent them");
  });
}

/// For LeakSanitizer, which does not take an address on the GPU for one.
void keep(const void* first, const void* second) {
  static auto& kept = *new std::vector<const void*>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  kept.insert(kept.end(), {first, second});
}

TEST_CASE("a batch that a device does not finish in time names the device") {
  use_nccl();
  std::latch both_ended(2);  // a stream that goes on before that could still finish the other rank's sum
  run_ranks(2, [&](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    std::latch go(1);
    const auto& memory = *new GpuMemory<float>(numbers(rank, 100));  // what is given up may still be touched
    keep(&memory, memory.kernels());
    if (rank == 1) gpu().launch(stream.get(), [&go] { go.wait(); });
    const GpuTensor tensor(memory.data(), 100, rank);
    rueda_op_options options = on_stream("slow", stream.get());
    options.timeout_seconds = 0.3;
    const int code = rueda_allreduce(session, tensor.get(), tensor.get(), RUEDA_SUM, &options);
    const std::string sentence = rueda_last_error();
    both_ended.arrive_and_wait();
    go.count_down();
    gpu().drain(stream.get());
    expect_code(code, RUEDA_TIMEOUT, "slow");
    expect(sentence.find("it waited for device cuda number ") != std::string::npos, sentence);
  });
}

TEST_CASE("each process set has a communicator, which goes with it") {
  StandinNccl& library = use_nccl();
  const int aborts = library.counts().aborts;
  run_ranks(3, [&](rueda_session* session, int rank) {
    const GpuStream stream(rank % 2);
    for (int round = 0; round < 3; ++round) {
      const std::vector<int32_t> ranks = {0, 1};
      int32_t set = 0;
      if (rank < 2) {
        expect_code(rueda_process_set_add(session, ranks.size(), ranks.data(), nullptr, &set), RUEDA_OK, "add");
        const GpuMemory<float> memory(numbers(rank, 10));
        const GpuTensor tensor(memory.data(), 10, rank);
        rueda_op_options options = on_stream("in the set", stream.get());
        options.process_set = set;
        expect_code(rueda_allreduce(session, tensor.get(), tensor.get(), RUEDA_SUM, &options), RUEDA_OK, "in the set");
        expect_sums(memory.values(), 2, "in the set");
        expect_code(rueda_process_set_remove(session, set), RUEDA_OK, "remove");
      }
    }
    if (rank < 2) expect(batches_by_nccl(session) == 3, "NCCL has not run the sums");
  });
  CHECK(library.counts().alive == 0);
  CHECK(library.counts().aborts == aborts);
}

/// A job of three ranks: two sums, how many of them were NCCL's, and the log.
TEST_CASE("rank: two sums on GPUs", "[.]") {
  gpu();
  rueda_session* session = nullptr;
  expect_code(rueda_init(nullptr, &session), RUEDA_OK, "init");
  const int rank = rueda_rank(session);
  const int index = std::getenv("TEST_ONE_GPU") != nullptr ? 0 : rank;
  const GpuStream stream(index);
  const GpuMemory<float> memory(numbers(rank, 1000));
  const rueda_handle handle = sum_on_gpu(session, memory, 1000, "first", stream.get(), index);
  const Ending ending = test::finish(handle);
  rank_report(std::string("ended ") + rueda_error_name(ending.code) + " " + ending.sentence);
  if (ending.code == RUEDA_OK) {
    expect_sums(memory.values(), 3, "first");
    const GpuMemory<float> again(numbers(rank, 1000));
    expect_done(sum_on_gpu(session, again, 1000, "second", stream.get(), index), "second");
    expect_sums(again.values(), 3, "second");
  }
  rank_report("by NCCL " + std::to_string(batches_by_nccl(session)));
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

RankProcesses::Options three_ranks(RankProcesses::Variables more, const RankProcesses::Variables& of_rank_1 = {}) {
  more.merge(RankProcesses::Variables{{"STANDIN_CUDA_DEVICES", "3"},
                                      {"RUEDA_NCCL_LIBRARY", RUEDA_TEST_NCCL},
                                      {"RUEDA_LOG_LEVEL", "info"},
                                      // LeakSanitizer cannot read the threads of streams that never end.
                                      {"ASAN_OPTIONS", "detect_leaks=0"}});
  return {.size = 3, .body = "rank: two sums on GPUs", .variables = more, .of_rank = [of_rank_1](int rank) {
            return rank == 1 ? of_rank_1 : RankProcesses::Variables{};
          }};
}

/// Runs them; all go through the host, and each says why.
void expect_host(RankProcesses::Variables more, const RankProcesses::Variables& of_rank_1, const std::string& why) {
  RankProcesses ranks(three_ranks(std::move(more), of_rank_1));
  for (const RankOutcome& outcome : ranks.finish()) {
    INFO(outcome.output);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.report("by") == "NCCL 0");
    CHECK_THAT(outcome.output, Contains(why));
  }
}

TEST_CASE("ranks in processes of their own use NCCL") {
  RankProcesses ranks(three_ranks({}));
  for (const RankOutcome& outcome : ranks.finish()) {
    INFO(outcome.output);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.report("by") == "NCCL 2");
  }
}

TEST_CASE("all members go through the host if one cannot use NCCL, and say why") {
  expect_host({}, {{"STANDIN_NCCL_VERSION", "22703"}}, "rank 0 has NCCL 2.28.9, and rank 1 has 2.27.3");
  expect_host({}, {{"RUEDA_NCCL_LIBRARY", "/nowhere"}}, "rank 1 has no NCCL that can be used");
  expect_host({}, {{"RUEDA_NCCL", "0"}}, "rank 1 has RUEDA_NCCL=0");
  expect_host({{"TEST_ONE_GPU", "1"}}, {}, "ranks 0 and 1 use the same GPU, which NCCL refuses");
}

TEST_CASE("a named algorithm, and rank 0's RUEDA_NCCL=0 leave NCCL out") {
  for (const auto& [name, value] :
       RankProcesses::Variables{{"RUEDA_ALLREDUCE_ALGORITHM", "shm_two_shot"}, {"RUEDA_NCCL", "0"}}) {
    RankProcesses ranks(three_ranks({{name, value}}));
    for (const RankOutcome& outcome : ranks.finish()) {
      INFO(name << ": " << outcome.output);
      CHECK(outcome.exit_code == 0);
      CHECK(outcome.report("by") == "NCCL 0");
    }
  }
}

TEST_CASE("in deterministic mode sums of floats need kernels on all ranks, or go through the host") {
  for (const bool all_have : {true, false}) {
    RankProcesses ranks(
        three_ranks({{"RUEDA_DETERMINISTIC", "1"}}, {{"STANDIN_CUDA_NO_KERNELS", all_have ? "0" : "1"}}));
    for (const RankOutcome& outcome : ranks.finish()) {
      INFO(outcome.output);
      CHECK(outcome.exit_code == 0);
      CHECK(outcome.report("by") == (all_have && RUEDA_TEST_KERNELS != 0 ? "NCCL 2" : "NCCL 0"));
    }
  }
}

TEST_CASE("a set that requires NCCL and cannot use it fails, and each rank says why") {
  RankProcesses ranks(three_ranks({{"RUEDA_NCCL", "1"}}, {{"RUEDA_NCCL_LIBRARY", "/nowhere"}}));
  for (int rank = 0; rank < 3; ++rank) {
    CHECK_THAT(ranks.await(rank, "ended"), Contains("rank 0 requires NCCL (RUEDA_NCCL=1), but rank 1 has no NCCL"));
  }
  ranks.finish();
}

TEST_CASE("ranks that share a GPU and require NCCL fail, and each says which they are") {
  RankProcesses ranks(three_ranks({{"RUEDA_NCCL", "1"}, {"TEST_ONE_GPU", "1"}}));
  for (int rank = 0; rank < 3; ++rank) {
    CHECK_THAT(ranks.await(rank, "ended"), Contains("rank 0 requires NCCL (RUEDA_NCCL=1), but ranks 0 and 1 use the "
                                                    "same GPU, which NCCL refuses"));
  }
  ranks.finish();
}

}  // namespace
}  // namespace rueda::test
