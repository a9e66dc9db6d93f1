// What a job with tensors on a GPU costs: from an enqueue to the launch, a wait of a stream, a large all-reduce beside
// its limits, the time from a death to the error, and that a job without such tensors touches no GPU.
#include <dirent.h>
#include <unistd.h>

#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "benchmarks/gpu/gpu.h"
#include "bindings/c/rueda.h"

namespace rueda::gpu_speed {
namespace {

using nlohmann::json;

void print(const json& line) {
  std::printf("%s\n", line.dump().c_str());  // one write: ranks may share the pipe
  std::fflush(stdout);
}

void expect_ok(int32_t code, const char* what) {
  if (code != RUEDA_OK) fail(std::string(what) + ": " + rueda_last_error());
}

rueda_session* begin() {
  std::setvbuf(stdout, nullptr, _IOFBF, 1 << 16);
  rueda_session* session = nullptr;
  expect_ok(rueda_init(nullptr, &session), "init");
  return session;
}

json ways_of(rueda_session* session) {
  size_t bytes = 0;
  static_cast<void>(rueda_stats(session, nullptr, 0, &bytes));
  std::string text(bytes + 4096, '\0');
  expect_ok(rueda_stats(session, text.data(), text.size(), &bytes), "stats");
  const json stats = json::parse(text.c_str());
  json ways = json::array();
  for (const json& each : stats.at("algorithms")) ways.push_back(each.at("name"));
  return ways;
}

/// Tensors of one length in memory of the GPU, or of the host.
struct Tensors {
  std::vector<std::byte*> memory;
  int64_t count;
  bool on_gpu;

  std::vector<rueda_handle> enqueue(rueda_session* session, CUstream stream) {
    std::vector<rueda_handle> handles(memory.size());
    for (size_t i = 0; i < memory.size(); ++i) {
      const std::string name = "tensor" + std::to_string(i);
      rueda_tensor tensor{};
      tensor.struct_size = sizeof tensor;
      tensor.data = memory[i];
      tensor.dtype = RUEDA_F32;
      tensor.dimensions = 1;
      tensor.shape = &count;
      if (on_gpu) tensor.device = RUEDA_DEVICE_CUDA;
      rueda_op_options options{};
      options.struct_size = sizeof options;
      options.name = name.c_str();
      options.more = i + 1 < memory.size() ? 1 : 0;
      if (on_gpu) options.stream = stream;
      expect_ok(rueda_allreduce_async(session, &tensor, &tensor, RUEDA_SUM, &options, &handles[i]), "enqueue");
    }
    return handles;
  }
};

void finish(const std::vector<rueda_handle>& handles) {
  for (const rueda_handle handle : handles) expect_ok(rueda_wait(handle, -1.0), "wait");
  for (const rueda_handle handle : handles) expect_ok(rueda_release(handle), "release");
}

Tensors tensors_on_gpu(size_t tensors, size_t bytes) {
  Tensors made{{}, static_cast<int64_t>(bytes / sizeof(float)), true};
  for (size_t i = 0; i < tensors; ++i) made.memory.push_back(Gpu::one().allocate(bytes));
  return made;
}

json in_microseconds(const std::vector<double>& seconds) {
  return {{"p50", quantile(seconds, 0.5) * 1e6}, {"p99", quantile(seconds, 0.99) * 1e6}};
}

/// The host's times of one batch after the other, each on an idle GPU.
void measure_batches(rueda_session* session, const std::string& name, Tensors tensors, int rounds) {
  CUstream const stream = Gpu::one().make_stream();
  std::vector<double> enqueued, launched, again, finished;
  for (int round = -rounds / 10; round < rounds; ++round) {
    const double begin = now();
    const std::vector<rueda_handle> handles = tensors.enqueue(session, stream);
    const double enqueue = now();
    for (const rueda_handle handle : handles) expect_ok(rueda_wait_stream(handle, stream, -1.0), "wait_stream");
    const double launch = now();
    expect_ok(rueda_wait_stream(handles.front(), stream, -1.0), "wait_stream");
    const double second = now();
    finish(handles);
    const double end = now();
    if (round < 0) continue;
    enqueued.push_back(enqueue - begin);
    launched.push_back(launch - begin);
    again.push_back(second - launch);
    finished.push_back(end - begin);
  }
  if (rueda_rank(session) != 0) return;
  print({{"measured", "launches"},
         {"ranks", rueda_size(session)},
         {"batch", name},
         {"to_enqueued", in_microseconds(enqueued)},
         {"to_launched", in_microseconds(launched)},
         {"wait_stream", in_microseconds(again)},
         {"to_finished", in_microseconds(finished)}});
}

/// A stream is held up, and behind it the tensors. Launch and wait return all the same; the sums come later.
void prove_that_the_host_does_not_wait(rueda_session* session) {
  Gpu& gpu = Gpu::one();
  auto* const go = static_cast<volatile uint32_t*>(gpu.allocate_pinned(sizeof(uint32_t)));
  auto* const seen = static_cast<float*>(gpu.allocate_pinned(sizeof(float)));
  *go = 0;
  *seen = -1;
  CUstream const stream = gpu.make_stream();
  Tensors tensors = tensors_on_gpu(1, 1 << 20);
  gpu.hold(stream, go);
  auto* const late = static_cast<float*>(gpu.allocate_pinned(sizeof(float)));
  *late = 500;
  gpu.copy(tensors.memory[0], late, sizeof(float), stream);  // behind the hold; the operation must see it
  const double begin = now();
  const auto handles = tensors.enqueue(session, stream);
  expect_ok(rueda_wait_stream(handles.front(), stream, 10.0), "wait_stream behind a stream that is held up");
  const double launched = now();
  gpu.copy(seen, tensors.memory[0], sizeof(float), stream);
  const bool was_early = *seen != -1;
  const float sum = *late * static_cast<float>(rueda_size(session));
  *go = 1;
  finish(handles);
  gpu.drain(stream);
  print({{"measured", "no host wait"},
         {"rank", rueda_rank(session)},
         {"launched_microseconds", (launched - begin) * 1e6},
         {"ordered", !was_early && *seen == sum}});
  if (was_early || *seen != sum) fail("the operation did not keep the order of its stream");
}

std::vector<double> times_of(rueda_session* session, Tensors& tensors, int rounds) {
  CUstream const stream = Gpu::one().make_stream();
  std::vector<double> times;
  for (int round = -3; round < rounds; ++round) {
    expect_ok(rueda_barrier(session, nullptr), "barrier");
    const double begin = now();
    finish(tensors.enqueue(session, stream));
    if (round >= 0) times.push_back(now() - begin);
  }
  return times;
}

/// Whether the process has opened a device of NVIDIA's.
bool uses_gpu() {
  bool found = false;
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) fail("cannot read /proc/self/fd");
  while (const dirent* const entry = ::readdir(folder)) {
    char target[PATH_MAX];
    const ssize_t length = ::readlink((std::string("/proc/self/fd/") + entry->d_name).c_str(), target, sizeof target);
    found = found || (length > 0 && std::string(target, static_cast<size_t>(length)).starts_with("/dev/nvidia"));
  }
  ::closedir(folder);
  return found;
}

}  // namespace

void measure_launches() {
  rueda_session* const session = begin();
  measure_batches(session, "1 x 4 B", tensors_on_gpu(1, 4), 2000);
  measure_batches(session, "1 x 25 MiB", tensors_on_gpu(1, 25 << 20), 200);
  measure_batches(session, "100 x 4 KiB", tensors_on_gpu(100, 4 << 10), 200);
  const char* const nccl = std::getenv("RUEDA_NCCL");  // without NCCL a launch copies the input to the host before
  if (nccl == nullptr || std::string(nccl) != "0") prove_that_the_host_does_not_wait(session);
  if (rueda_rank(session) == 0) print({{"measured", "ways"}, {"ways", ways_of(session)}, {"gpu", Gpu::one().name()}});
  expect_ok(rueda_shutdown(session), "shutdown");
}

/// An all-reduce of GPU memory, the same of host memory, and the copies over the bus.
void measure_rate(size_t bytes) {
  rueda_session* const session = begin();
  Gpu& gpu = Gpu::one();
  constexpr int kRounds = 15;
  Tensors on_gpu = tensors_on_gpu(1, bytes);
  std::vector<float> numbers(bytes / sizeof(float), 1.0f);
  Tensors on_host{{reinterpret_cast<std::byte*>(numbers.data())}, on_gpu.count, false};
  const double device = quantile(times_of(session, on_gpu, kRounds), 0.5);
  const double host = quantile(times_of(session, on_host, kRounds), 0.5);
  void* const pinned = gpu.allocate_pinned(bytes);
  CUstream const stream = gpu.make_stream();
  const double down = gpu.time(stream, kRounds, [&] { gpu.copy(pinned, on_gpu.memory[0], bytes, stream); }) / 1e3;
  const double up = gpu.time(stream, kRounds, [&] { gpu.copy(on_gpu.memory[0], pinned, bytes, stream); }) / 1e3;
  const auto rate = [bytes](double seconds) { return static_cast<double>(bytes) / seconds / 1e9; };
  if (rueda_rank(session) == 0) {
    print({{"measured", "rate"},
           {"bytes", bytes},
           {"ranks", rueda_size(session)},
           {"ways", ways_of(session)},
           {"gpu_gigabytes_per_second", rate(device)},
           {"host_gigabytes_per_second", rate(host)},
           {"to_host_gigabytes_per_second", rate(down)},
           {"from_host_gigabytes_per_second", rate(up)},
           {"share_of_limit", std::max({host, down, up}) / device}});
  }
  expect_ok(rueda_shutdown(session), "shutdown");
}

/// The last rank dies in the middle of its sums, and says when in the file; the others say when they were told.
void measure_death(const std::string& file) {
  rueda_session* const session = begin();
  Tensors tensors = tensors_on_gpu(1, 4 << 20);
  CUstream const stream = Gpu::one().make_stream();
  const bool dies = rueda_rank(session) == rueda_size(session) - 1;
  for (int round = 0;; ++round) {
    if (dies && round == 100) {
      static_cast<void>(tensors.enqueue(session, stream));
      std::ofstream(file) << std::fixed << now() << std::endl;
      ::kill(::getpid(), SIGKILL);
    }
    for (const rueda_handle handle : tensors.enqueue(session, stream)) {
      const int32_t code = rueda_wait(handle, 30.0);
      const double told = now();
      if (code == RUEDA_OK) {
        expect_ok(rueda_release(handle), "release");
        continue;
      }
      if (code != RUEDA_PEER_LOST) fail(std::string("a death gives: ") + rueda_last_error());
      double died = 0;
      std::ifstream(file) >> died;
      print({{"measured", "death"}, {"milliseconds", (told - died) * 1e3}, {"sentence", rueda_last_error()}});
      std::_Exit(0);
    }
  }
}

void look_idle() {
  rueda_session* const session = begin();
  float number = 1;
  rueda_tensor tensor{};
  tensor.struct_size = sizeof tensor;
  tensor.data = &number;
  tensor.dtype = RUEDA_F32;
  expect_ok(rueda_allreduce(session, &tensor, &tensor, RUEDA_SUM, nullptr), "all-reduce");
  const bool idle = !uses_gpu();
  print({{"measured", "idle"}, {"rank", rueda_rank(session)}, {"touches_no_gpu", idle}});
  expect_ok(rueda_shutdown(session), "shutdown");
  if (!idle) fail("a job without tensors on a GPU has opened one");
}

}  // namespace rueda::gpu_speed
