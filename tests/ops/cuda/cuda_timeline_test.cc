// What a timeline shows of a GPU's work, and that nothing is timed without one. GPUs and NCCL are stand-ins, whose
// clock is not the host's.
#include <barrier>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/ops/cuda/nccl.h"
#include "tests/support/temporary_folder.h"

namespace rueda::test {
namespace {

using Json = nlohmann::ordered_json;
using namespace std::chrono_literals;

/// How far the clocks of GPUs move on between a launch and the work: in it no span may begin where the batch does.
constexpr auto kSkipped = 10s;
/// In microseconds: how wrong a time of a GPU's may be, which is half of the time in which the host looks at it.
constexpr double kMostWrong = 50'000;

struct Span {
  double begin = 0;
  double end = 0;
};

/// The last span of each name, by rank; batches by the name of their first tensor.
std::map<std::pair<int, std::string>, Span> last_spans(const std::string& path) {
  std::map<std::pair<int, std::string>, Span> found;
  for (const Json& event : Json::parse(text_of(path))) {
    if (event.at("ph") != "X") continue;
    const bool is_batch = event.at("args").contains("first");
    const std::string name = is_batch ? event.at("args").at("first") : event.at("name");
    const double begin = event.at("ts");
    found[{event.at("pid").get<int>(), name}] = {begin, begin + event.at("dur").get<double>()};
  }
  return found;
}

/// A sum with a codec: its tensor goes through the buffer, also if it is alone.
rueda_handle sum_in_codec(rueda_session* session, const GpuMemory<float>& memory, const char* name, CUstream stream,
                          int rank) {
  const GpuTensor tensor(memory.data(), 1000, rank);
  rueda_op_options options = on_stream(name, stream);
  options.codec = RUEDA_CODEC_BF16;
  rueda_handle handle = 0;
  expect_code(rueda_allreduce_async(session, tensor.get(), tensor.get(), RUEDA_SUM, &options, &handle), RUEDA_OK, name);
  return handle;
}

/// Two ranks' sum "held", which is launched long before its GPUs come to it, as a timeline shows it.
std::map<std::pair<int, std::string>, Span> record_held_sum() {
  const TemporaryFolder folder;
  const std::string path = folder.file("t.json");
  std::barrier both(2);
  std::latch go(1);
  run_ranks(2, [&](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    const GpuMemory<float> memory(std::vector<float>(1000, 1.0f));
    expect_code(rueda_start_timeline(session, path.c_str(), 0), RUEDA_OK, "start");
    expect_usable(session, "meet");  // all record by the next one
    expect_done(sum_in_codec(session, memory, "first", stream.get(), rank), "first");
    gpu().launch(stream.get(), [&go] { go.wait(); });
    const rueda_handle held = sum_in_codec(session, memory, "held", stream.get(), rank);
    const GpuStream other(rank);
    expect_code(rueda_wait_stream(held, other.get(), -1.0), RUEDA_OK, "launched");
    both.arrive_and_wait();
    if (rank == 0) gpu().skip_time(kSkipped);
    if (rank == 0) go.count_down();
    expect_done(held, "held");
    expect_usable(session, "all are through");
    if (rank == 0) expect_code(rueda_stop_timeline(session), RUEDA_OK, "stop");
    expect_usable(session, "stopped");
    const int timed = gpu().counts().timed_marks;
    expect_done(sum_in_codec(session, memory, "after", stream.get(), rank), "after");
    both.arrive_and_wait();
    expect(gpu().counts().timed_marks == timed, "events have times without a timeline");
  });
  gpu().skip_time(-kSkipped);  // an anchor from before may serve another test
  return last_spans(path);
}

TEST_CASE("a timeline shows when a GPU packed, exchanged and unpacked, however long after the launch") {
  if (RUEDA_TEST_KERNELS == 0) return;
  use_nccl();
  auto spans = record_held_sum();
  // A GPU that takes too long to say what time it is has no spans.
  for (int again = 0; again < 5 && !(spans.contains({0, "device pack"}) && spans.contains({1, "device pack"}));
       ++again) {
    spans = record_held_sum();
  }
  const double skipped = std::chrono::duration<double, std::micro>(kSkipped).count();
  for (const int rank : {0, 1}) {
    INFO("rank " << rank);
    const Span batch = spans.at({rank, "held"});
    const Span pack = spans.at({rank, "device pack"});
    const Span exchange = spans.at({rank, "device exchange"});
    const Span unpack = spans.at({rank, "device unpack"});
    CHECK(pack.begin >= batch.begin + skipped - kMostWrong);
    CHECK((pack.end >= pack.begin && exchange.begin >= pack.end - 1 && unpack.begin >= exchange.end - 1));
    CHECK(unpack.end <= batch.end + skipped + kMostWrong);
  }
}

TEST_CASE("a timeline shows the copies of a batch that goes through the host, and what the host did between them") {
  const Variable host("RUEDA_NCCL", "0");
  const TemporaryFolder folder;
  const std::string path = folder.file("t.json");
  run_ranks(2, [&](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    expect_code(rueda_start_timeline(session, path.c_str(), 0), RUEDA_OK, "start");
    expect_usable(session, "meet");
    for (int i = 0; i < 3; ++i) {
      const GpuMemory<float> memory(numbers(rank, 3'000'000));  // three pieces
      expect_done(sum_on_gpu(session, memory, 3'000'000, "staged", stream.get(), rank), "staged");
    }
    expect_usable(session, "all are through");
    if (rank == 0) expect_code(rueda_stop_timeline(session), RUEDA_OK, "stop");
  });
  const auto spans = last_spans(path);
  for (const int rank : {0, 1}) {
    INFO("rank " << rank);
    const Span batch = spans.at({rank, "staged"});
    const Span exchange = spans.at({rank, "device exchange"});
    CHECK((exchange.begin >= batch.begin && exchange.end <= batch.end));
    if (!spans.contains({rank, "device pack"})) continue;  // the GPU took too long to say what time it is
    const Span pack = spans.at({rank, "device pack"});
    const Span unpack = spans.at({rank, "device unpack"});
    CHECK((pack.begin >= batch.begin - kMostWrong && pack.end <= exchange.end + kMostWrong));
    CHECK((unpack.begin >= exchange.begin - kMostWrong && unpack.end <= batch.end + kMostWrong));
  }
}

TEST_CASE("without a timeline no event has a time") {
  use_nccl();
  const int before = gpu().counts().timed_marks;
  run_ranks(2, [](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    const GpuMemory<float> memory(std::vector<float>(1000, 1.0f));
    expect_done(sum_in_codec(session, memory, "untimed", stream.get(), rank), "untimed");
  });
  CHECK(gpu().counts().timed_marks == before);
}

}  // namespace
}  // namespace rueda::test
