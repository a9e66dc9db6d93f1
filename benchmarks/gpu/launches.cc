// What a batch on a GPU costs the host: from an enqueue to the launch, and a wait of a stream. Beside it what a job
// with tensors on a GPU must show: no wait of the host, tensors packed by NCCL's registered memory, and no GPU without
// need.
#include <dirent.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "benchmarks/gpu/job.h"

namespace rueda::gpu_speed {
namespace {

using nlohmann::json;

bool without_nccl() {
  const char* const nccl = std::getenv("RUEDA_NCCL");
  return nccl != nullptr && std::string(nccl) == "0";
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
  // Without NCCL a launch copies the input to the host before.
  if (!without_nccl()) prove_that_the_host_does_not_wait(session);
  if (rueda_rank(session) == 0) print({{"measured", "ways"}, {"ways", ways_of(session)}, {"gpu", Gpu::one().name()}});
  expect_ok(rueda_shutdown(session), "shutdown");
}

void show_packing() {
  rueda_session* const session = begin();
  Tensors tensors = tensors_on_gpu(100, 4 << 10);
  CUstream const stream = Gpu::one().make_stream();
  for (int round = 0; round < 200; ++round) finish(tensors.enqueue(session, stream));
  const json ways = ways_of(session);
  print({{"measured", "packing"},
         {"rank", rueda_rank(session)},
         {"ways", ways},
         {"plugins_bytes", stats_of(session).at("memory_bytes").at("plugins")}});
  expect_ok(rueda_shutdown(session), "shutdown");
  const bool by_nccl = ways == json{"nccl"};
  if (by_nccl == without_nccl()) fail("the batches went by " + ways.dump());
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
