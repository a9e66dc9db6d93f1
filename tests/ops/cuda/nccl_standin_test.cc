// The table of NCCL's functions, and what the stand-in behind it does: what later tests rely on.
#include <catch2/catch.hpp>
#include <memory>
#include <thread>

#include "tests/ops/cuda/nccl.h"
#include "tests/support/rank_processes.h"

namespace rueda::test {
namespace {

using Catch::Matchers::Contains;
using cuda::NcclComm;
using cuda::NcclId;
using cuda::NcclOp;
using cuda::NcclResult;
using cuda::NcclType;

void expect_result(NcclResult result, NcclResult wanted, const std::string& what) {
  expect(result == wanted, what + " gave " + std::to_string(static_cast<int>(result)));
}

/// A communicator of a rank for a scope, aborted at its end unless it was destroyed.
class Communicator {
 public:
  Communicator(const NcclId& id, int ranks, int rank, int device) {
    gpu().use_device(device);
    cuda::NcclConfig config;
    expect_result(nccl().init(&handle_, ranks, id, rank, &config), NcclResult::kInProgress, "init");
  }
  ~Communicator() {
    if (handle_ != nullptr) nccl().abort(handle_);
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  NcclComm get() const { return handle_; }
  NcclComm take() { return std::exchange(handle_, nullptr); }
  NcclResult settled() const {
    NcclResult state = NcclResult::kInProgress;
    for (const core::Deadline deadline = patience(); state == NcclResult::kInProgress; std::this_thread::yield()) {
      expect(!deadline.passed(), "a call is in progress for ever");
      expect_result(nccl().state(handle_, &state), NcclResult::kSuccess, "state");
    }
    return state;
  }
  void settle(const std::string& what) const { expect_result(settled(), NcclResult::kSuccess, what); }

 private:
  NcclComm handle_ = nullptr;
};

void finish(Communicator& communicator) {
  expect_result(nccl().finalize(communicator.get()), NcclResult::kInProgress, "finalize");
  communicator.settle("finalize");
  expect_result(nccl().destroy(communicator.take()), NcclResult::kSuccess, "destroy");
}

TEST_CASE("sums of several chunks over the stand-in for NCCL are right on every rank, in place and scaled") {
  const NcclId id = [] {
    NcclId made{};
    nccl().get_unique_id(&made);
    return made;
  }();
  on_threads(2, [&id](int rank) {
    Communicator all(id, 2, rank, rank);
    all.settle("init");
    const GpuStream stream(rank);
    const GpuMemory<float> memory(numbers(rank, 20'000));
    nccl().all_reduce(memory.data(), memory.data(), 20'000, NcclType::kF32, NcclOp::kSum, all.get(), stream.get());
    all.settle("sum");
    float half = 0.5f;
    NcclOp halved{};
    expect_result(nccl().create_scaled_sum(&halved, &half, NcclType::kU8, cuda::kNcclScalarOnHost, all.get()),
                  NcclResult::kInvalidArgument, "a scaled sum of u8");
    nccl().create_scaled_sum(&halved, &half, NcclType::kF32, cuda::kNcclScalarOnHost, all.get());
    nccl().all_reduce(memory.data(), memory.data(), 20'000, NcclType::kF32, halved, all.get(), stream.get());
    all.settle("mean");
    nccl().destroy_op(halved, all.get());
    gpu().drain(stream.get());
    expect_sums(memory.values(), 2, "mean of sums");
    finish(all);
  });
  CHECK(standin_nccl().counts().alive == 0);
  CHECK(standin_nccl().counts().misuses == 0);
  CHECK(standin_nccl().counts().operators == 0);
}

TEST_CASE("rows move as NCCL moves them, and a group's messages move in both directions at once") {
  NcclId id{};
  nccl().get_unique_id(&id);
  on_threads(2, [&id](int rank) {
    Communicator all(id, 2, rank, rank);
    all.settle("init");
    const GpuStream stream(rank);
    const int other = 1 - rank;
    constexpr size_t kCount = 10'000;  // more than a chunk
    const GpuMemory<float> own(numbers(rank, kCount));
    const GpuMemory<float> got(kCount);
    const GpuMemory<float> both(2 * kCount);
    nccl().group_start();
    nccl().send(own.data(), kCount, NcclType::kF32, other, all.get(), stream.get());
    nccl().receive(got.data(), kCount, NcclType::kF32, other, all.get(), stream.get());
    nccl().group_end();
    all.settle("messages");
    nccl().all_gather(own.data(), both.data(), kCount, NcclType::kF32, all.get(), stream.get());
    all.settle("all-gather");
    gpu().drain(stream.get());
    expect(got.values() == numbers(other, kCount), "the message is another");
    std::vector<float> rows = numbers(0, kCount);
    const std::vector<float> of_one = numbers(1, kCount);
    rows.insert(rows.end(), of_one.begin(), of_one.end());
    expect(both.values() == rows, "the rows are others");
    nccl().broadcast(own.data(), own.data(), kCount, NcclType::kF32, 1, all.get(), stream.get());
    all.settle("broadcast");
    nccl().reduce_scatter(both.data(), got.data(), kCount, NcclType::kF32, NcclOp::kMax, all.get(), stream.get());
    all.settle("reduce-scatter");
    gpu().drain(stream.get());
    expect(own.values() == of_one, "the root's values have not come");
    expect(got.values() == numbers(rank, kCount), "the rank has other rows");
    finish(all);
  });
}

TEST_CASE("two ranks on one GPU are refused, a call before the last one is through is a misuse, and counts as one") {
  NcclId id{};
  nccl().get_unique_id(&id);
  on_threads(2, [&id](int rank) {
    const Communicator all(id, 2, rank, 0);
    expect_result(all.settled(), NcclResult::kInvalidUsage, "init on one GPU");
  });
  const int before = standin_nccl().counts().misuses;
  nccl().get_unique_id(&id);
  const Communicator alone(id, 2, 0, 0);  // the other rank never comes, so it is in progress
  const GpuStream stream(0);
  const GpuMemory<float> memory(4);
  expect_result(
      nccl().all_reduce(memory.data(), memory.data(), 4, NcclType::kF32, NcclOp::kSum, alone.get(), stream.get()),
      NcclResult::kInvalidUsage, "a sum while in progress");
  CHECK(standin_nccl().counts().misuses == before + 1);
}

void await_held(const std::string& call) {
  for (const core::Deadline deadline = patience(); standin_nccl().counts().held == 0; std::this_thread::yield()) {
    expect(!deadline.passed(), call + " is not held");
  }
}

TEST_CASE("the stand-in for NCCL counts an abort while a thread is in a group, and a call while an abort runs") {
  const GpuStream stream(0);
  const GpuMemory<float> memory(4);
  const auto make_alone = [] {
    NcclId id{};
    nccl().get_unique_id(&id);
    return std::make_unique<Communicator>(id, 1, 0, 0);
  };
  const int before = standin_nccl().counts().misuses;
  const auto held_group = make_alone();
  held_group->settle("init");
  standin_nccl().hang("ncclGroupEnd");
  std::thread in_group([&] {
    gpu().use_device(0);
    nccl().group_start();
    nccl().all_reduce(memory.data(), memory.data(), 4, NcclType::kF32, NcclOp::kSum, held_group->get(), stream.get());
    nccl().group_end();
  });
  await_held("ncclGroupEnd");
  nccl().abort(held_group->get());
  CHECK(standin_nccl().counts().misuses == before + 1);
  standin_nccl().heal();
  in_group.join();
  gpu().drain(stream.get());

  const auto held_abort = make_alone();
  held_abort->settle("init");
  const int before_abort = standin_nccl().counts().misuses;
  standin_nccl().hang("ncclCommAbort");
  std::thread in_abort([&] { nccl().abort(held_abort->get()); });
  await_held("ncclCommAbort");
  NcclResult state{};
  nccl().state(held_abort->get(), &state);
  standin_nccl().heal();
  in_abort.join();
  static_cast<void>(held_abort->take());
  CHECK(standin_nccl().counts().misuses == before_abort + 1);
}

TEST_CASE("the stand-in for NCCL finds registered memory of one rank with other memory of another, and ends none") {
  NcclId id{};
  nccl().get_unique_id(&id);
  const NcclCounts before = standin_nccl().counts();
  on_threads(2, [&id](int rank) {
    Communicator all(id, 2, rank, rank);
    all.settle("init");
    const GpuStream stream(rank);
    void* memory = nullptr;
    expect_result(nccl().allocate(&memory, 4000), NcclResult::kSuccess, "memory");
    void* registration = nullptr;
    expect_result(nccl().register_memory(all.get(), memory, 4000, &registration), NcclResult::kSuccess, "register");
    const auto sum = [&] {
      nccl().all_reduce(memory, memory, 1000, NcclType::kF32, NcclOp::kSum, all.get(), stream.get());
      const NcclResult launched = all.settled();
      gpu().drain(stream.get());
      return launched == NcclResult::kSuccess ? all.settled() : launched;
    };
    expect_result(sum(), NcclResult::kSuccess, "a sum of registered memory");
    expect_result(nccl().finalize(all.get()), NcclResult::kInvalidUsage, "finalize with registered memory");
    if (rank == 1) nccl().deregister_memory(all.get(), registration);
    expect_result(sum(), NcclResult::kInvalidUsage, "a sum of registered and other memory");
    nccl().abort(all.take());
    nccl().free(memory);
  });
  const NcclCounts after = standin_nccl().counts();
  CHECK(after.misuses == before.misuses + 2);
  CHECK((after.mixed > before.mixed && after.registered == before.registered && after.memory == before.memory));
}

TEST_CASE("the stand-in for NCCL fails in the call that a test names, until it is healed") {
  NcclId id{};
  standin_nccl().fail("ncclGetUniqueId", 2, NcclResult::kSystemError);
  CHECK(nccl().get_unique_id(&id) == NcclResult::kSuccess);
  CHECK(nccl().get_unique_id(&id) == NcclResult::kSystemError);
  standin_nccl().heal();
  CHECK(nccl().get_unique_id(&id) == NcclResult::kSuccess);
}

TEST_CASE("rank: sums over the stand-in for NCCL with a rank that is killed", "[.]") {
  NcclId id{};
  const bool first = std::getenv("RUEDA_TEST_FIRST") != nullptr;
  if (first) {
    nccl().get_unique_id(&id);
    rank_report(std::string("id ") + id.bytes.data());
  }
  const std::string told = rank_await();
  std::copy(told.begin(), told.end(), id.bytes.begin());
  Communicator all(id, 2, first ? 0 : 1, first ? 0 : 1);
  all.settle("init");
  const GpuStream stream(first ? 0 : 1);
  const GpuMemory<float> memory(numbers(first ? 0 : 1, 1000));
  if (!first) {
    rank_report("joined");
    rank_await();  // it is killed here
    return;
  }
  nccl().all_reduce(memory.data(), memory.data(), 1000, NcclType::kF32, NcclOp::kSum, all.get(), stream.get());
  all.settle("sum");
  rank_report("launched");
  rank_await();
  nccl().group_start();
  nccl().abort(all.take());
  nccl().group_end();
  gpu().drain(stream.get());
  rank_report("aborted " + std::to_string(standin_nccl().counts().aborts));
}

TEST_CASE("a kernel waits for a killed process until its communicator is aborted") {
  RankProcesses ranks(
      {.size = 2, .body = "rank: sums over the stand-in for NCCL with a rank that is killed", .of_rank = [](int rank) {
         return rank == 0 ? RankProcesses::Variables{{"RUEDA_TEST_FIRST", "1"}} : RankProcesses::Variables{};
       }});
  const std::string id = ranks.await(0, "id");
  ranks.tell(0, id);
  ranks.tell(1, id);
  ranks.await(1, "joined");
  ranks.await(0, "launched");
  ranks.signal(1, SIGKILL);
  ranks.tell(0, "abort");
  CHECK(ranks.await(0, "aborted") == "1");
  CHECK(ranks.finish()[0].exit_code == 0);
}

TEST_CASE("a library that is not NCCL, or an old one, is refused with a sentence") {
  gpu();
  const auto why = [](const std::string& path) { return cuda::open_nccl(path).status().sentence(); };
  CHECK_THAT(why("/nowhere"), Contains("no NCCL: /nowhere") && Contains("pip install nvidia-nccl-cu13"));
  CHECK_THAT(why(RUEDA_TEST_CUDA), Contains("is not NCCL: it has no ncclGetVersion"));
  ::setenv("STANDIN_NCCL_VERSION", "21304", 1);
  CHECK_THAT(why(RUEDA_TEST_NCCL), Contains("NCCL 2.13.4 (" RUEDA_TEST_NCCL ") is too old; the least is 2.14.0"));
  ::unsetenv("STANDIN_NCCL_VERSION");
  CHECK(nccl().version == 22809);
  CHECK(nccl().path == RUEDA_TEST_NCCL);
}

}  // namespace
}  // namespace rueda::test
