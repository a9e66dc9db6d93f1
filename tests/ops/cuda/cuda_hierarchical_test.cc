// Sums in two levels: NCCL inside each host, TCP between hosts. GPUs and NCCL are stand-ins, hosts are names.
#include <catch2/catch.hpp>
#include <csignal>

#include "tests/ops/cuda/nccl.h"
#include "tests/support/rank_processes.h"

namespace rueda::test {
namespace {

using Catch::Matchers::Contains;

/// Ranks as threads on hosts of these names, each with a GPU of its own.
void with_choice(const char* hierarchical, const std::vector<std::string>& hosts,
                 const std::function<void(rueda_session*, int)>& body) {
  ::setenv("STANDIN_CUDA_DEVICES", "8", 1);
  const Variable choice("RUEDA_HIERARCHICAL_ALLREDUCE", hierarchical);
  use_nccl();
  run_ranks(hosts, body);
  CHECK(standin_nccl().counts().alive == 0);
  CHECK(standin_nccl().counts().misuses == 0);
}

/// In two levels.
void on_hosts(const std::vector<std::string>& hosts, const std::function<void(rueda_session*, int)>& body) {
  with_choice("1", hosts, body);
}

/// How many calls of NCCL a sum of floats takes on all ranks.
int calls_for(const char* hierarchical, const std::vector<std::string>& hosts, int64_t count) {
  const int before = use_nccl().counts().operations;
  with_choice(hierarchical, hosts, [count](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    const GpuMemory<float> memory(numbers(rank, static_cast<size_t>(count)));
    expect_done(sum_on_gpu(session, memory, count, "sum", stream.get(), rank), "sum");
    expect_sums(memory.values(), rueda_size(session), "by choice");
  });
  return use_nccl().counts().operations - before;
}

TEST_CASE("long sums take two levels by themselves if each host has several GPUs and NCCL would use TCP") {
  const std::vector<std::string> even = {"a", "a", "b", "b"};
  constexpr int64_t kLong = 100'000;
  const int one_level = 4;       // a call on each rank
  const int two_levels = 4 * 4;  // two reductions to owners, and two broadcasts
  {
    const Variable network("NCCL_NET", "Socket");
    CHECK(calls_for("auto", even, kLong) == two_levels);
    CHECK(calls_for("auto", even, 100) == one_level);
    CHECK(calls_for("0", even, kLong) == one_level);
    CHECK(calls_for("auto", {"a", "a", "b"}, kLong) == 3);
    CHECK(calls_for("auto", {"a", "a", "a", "a"}, kLong) == one_level);
    CHECK(calls_for("auto", {"a", "a", "a", "b", "b"}, kLong) == 5 * 4);
  }
  const Variable network("NCCL_NET", "IB");
  CHECK(calls_for("auto", even, kLong) == one_level);
  CHECK(calls_for("1", even, 100) == two_levels);
}

TEST_CASE("sums over several hosts are NCCL's inside each, whatever the hosts' sizes and the tensors' lengths") {
  const std::vector<std::string> hosts =
      GENERATE(std::vector<std::string>{"a", "a", "b", "b"}, std::vector<std::string>{"a", "a", "b", "b", "b"},
               std::vector<std::string>{"a", "b", "b"}, std::vector<std::string>{"a", "a", "b"},
               std::vector<std::string>{"a", "a", "a", "b"});
  const int made = use_nccl().counts().made;
  on_hosts(hosts, [&](rueda_session* session, int rank) {
    const int size = rueda_size(session);
    const GpuStream stream(rank);
    // One element, none, odd lengths, and more than one piece.
    const std::vector<int64_t> counts = {1, 0, 33, 100'003, 2'500'001};
    std::vector<std::unique_ptr<GpuMemory<float>>> memory;
    std::vector<rueda_handle> handles;
    for (size_t i = 0; i < counts.size(); ++i) {
      memory.push_back(std::make_unique<GpuMemory<float>>(numbers(rank, static_cast<size_t>(counts[i]))));
      handles.push_back(
          sum_on_gpu(session, *memory[i], counts[i], ("t" + std::to_string(i)).c_str(), stream.get(), rank));
    }
    for (const rueda_handle handle : handles) expect_done(handle, "sum");
    for (const auto& each : memory) expect_sums(each->values(), size, "in two levels");
    expect(batches_by_nccl(session) > 0, "NCCL has run no batch");
  });
  CHECK(standin_nccl().counts().made - made == 2 * static_cast<int>(hosts.size()));  // of the set, and of a host
}

TEST_CASE("in two levels the types, averages and outputs elsewhere are right, and other kinds go one level") {
  on_hosts({"a", "a", "b", "b"}, [](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    const GpuMemory<int64_t> whole(std::vector<int64_t>{rank + 1, -rank, 7});
    CTensor integers(whole.data(), RUEDA_I64, {3});
    integers->device = RUEDA_DEVICE_CUDA;
    integers->device_index = rank;
    rueda_op_options options = on_stream("integers", stream.get());
    expect_code(rueda_allreduce(session, integers.get(), integers.get(), RUEDA_MAX, &options), RUEDA_OK, "max");
    expect(whole.values() == std::vector<int64_t>{4, 0, 7}, "the maximum is wrong");

    const GpuMemory<uint16_t> halves(std::vector<uint16_t>{0x3c00, 0x4000, 0x4200, 0x4400});  // 1, 2, 3, 4
    const GpuMemory<uint16_t> mean(4);
    CTensor from(halves.data(), RUEDA_F16, {4});
    CTensor to(mean.data(), RUEDA_F16, {4});
    from->device = to->device = RUEDA_DEVICE_CUDA;
    from->device_index = to->device_index = rank;
    options = on_stream("halves", stream.get());
    expect_code(rueda_allreduce(session, from.get(), to.get(), RUEDA_AVERAGE, &options), RUEDA_OK, "mean");
    expect(mean.values() == halves.values(), "the mean of equal tensors differs from them");

    const GpuMemory<float> sent(numbers(rank, 50));
    const GpuTensor tensor(sent.data(), 50, rank);
    options = on_stream("broadcast", stream.get());
    expect_code(rueda_broadcast(session, tensor.get(), tensor.get(), 2, &options), RUEDA_OK, "broadcast");
    expect(sent.values() == numbers(2, 50), "the broadcast is wrong");
    expect(batches_by_nccl(session) == 3, "NCCL has not run all of them");
  });
}

/// Of four ranks on two hosts rank 3's GPU never finishes what the second sum needs.
TEST_CASE("rank: two levels and a GPU that is stuck", "[.]") {
  use_nccl();
  rueda_session* session = nullptr;
  expect_code(rueda_init(nullptr, &session), RUEDA_OK, "init");
  const int rank = rueda_rank(session);
  static auto& never = *new std::latch(1);
  {
    const GpuStream stream(rank);
    static const auto& memory = *new GpuMemory<float>(numbers(rank, 3'000'000));
    static const void* const on_host [[maybe_unused]] = gpu().in_kernel(memory.data());
    expect_done(sum_on_gpu(session, memory, 10, "first", stream.get(), rank), "first");
    if (rank == 3) gpu().launch(stream.get(), [] { never.wait(); });
    const rueda_handle handle = sum_on_gpu(session, memory, 3'000'000, "second", stream.get(), rank);
    rank_report("enqueued");
    const Ending ending = test::finish(handle);
    rank_report(std::string("ended ") + rueda_error_name(ending.code) + " " + ending.sentence);
  }
  CHECK(rueda_shutdown(session) == RUEDA_OK);
  rank_report("aborts " + std::to_string(standin_nccl().counts().aborts));
  rank_report("at-once " + std::to_string(standin_nccl().counts().most_in_abort));
  never.count_down();
}

TEST_CASE("a death ends what two levels wait for, on the same host and on the other") {
  // Without the search for leaks, which cannot read the threads of streams that never end.
  RankProcesses ranks({.size = 4,
                       .body = "rank: two levels and a GPU that is stuck",
                       .variables = {{"STANDIN_CUDA_DEVICES", "4"},
                                     {"RUEDA_HIERARCHICAL_ALLREDUCE", "1"},
                                     {"ASAN_OPTIONS", "detect_leaks=0"}},
                       .of_rank = [](int rank) {
                         return RankProcesses::Variables{{"RUEDA_HOSTNAME", rank < 2 ? "a" : "b"}};
                       }});
  for (int rank = 0; rank < 4; ++rank) ranks.await(rank, "enqueued");
  ranks.signal(3, SIGKILL);
  for (const int rank : {0, 1, 2}) {
    CHECK_THAT(ranks.await(rank, "ended"), Contains("PEER_LOST") && Contains("rank 3") && !Contains("may still write"));
  }
  const std::vector<RankOutcome> outcomes = ranks.finish();
  for (size_t rank = 0; rank < 3; ++rank) {
    INFO(outcomes[rank].output);
    CHECK(outcomes[rank].exit_code == 0);
    CHECK(outcomes[rank].report("aborts") == "2");
    CHECK(outcomes[rank].report("at-once") == "2");  // one after the other, an abort waits for the other's kernel
  }
}

}  // namespace
}  // namespace rueda::test
