// How fast an all-reduce of GPU memory is beside its limits: the same of host memory, and copies over the bus. All take
// turns, since a limit varies from moment to moment; each round gives a share of its own.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "benchmarks/gpu/job.h"

namespace rueda::gpu_speed {
namespace {

/// The seconds of each, round by round.
struct Times {
  std::vector<double> on_gpu, on_host, down, up, shares;
};

double time_of(rueda_session* session, Tensors& tensors, CUstream stream) {
  expect_ok(rueda_barrier(session, nullptr), "barrier");
  const double begin = now();
  finish(tensors.enqueue(session, stream));
  return now() - begin;
}

Times take_turns(rueda_session* session, Tensors& on_gpu, Tensors& on_host, size_t bytes) {
  constexpr int kRounds = 15;
  Gpu& gpu = Gpu::one();
  CUstream const stream = gpu.make_stream();
  void* const pinned = gpu.allocate_pinned(bytes);
  void* const there = gpu.allocate(bytes);
  const auto copy = [&](void* to, const void* from) {
    expect_ok(rueda_barrier(session, nullptr), "barrier");
    return gpu.time(stream, 1, [&] { gpu.copy(to, from, bytes, stream); }) / 1e3;
  };
  Times times;
  for (int round = -3; round < kRounds; ++round) {
    const double device = time_of(session, on_gpu, stream);
    const double host = time_of(session, on_host, stream);
    const double down = copy(pinned, there);
    const double up = copy(there, pinned);
    if (round < 0) continue;
    times.on_gpu.push_back(device);
    times.on_host.push_back(host);
    times.down.push_back(down);
    times.up.push_back(up);
    times.shares.push_back(std::max({host, down, up}) / device);
  }
  return times;
}

}  // namespace

void measure_rate(size_t bytes) {
  rueda_session* const session = begin();
  Tensors on_gpu = tensors_on_gpu(1, bytes);
  std::vector<float> numbers(bytes / sizeof(float), 1.0f);
  Tensors on_host{{reinterpret_cast<std::byte*>(numbers.data())}, on_gpu.count, false};
  const Times times = take_turns(session, on_gpu, on_host, bytes);
  const auto rate = [bytes](const std::vector<double>& seconds) {
    return static_cast<double>(bytes) / quantile(seconds, 0.5) / 1e9;
  };
  if (rueda_rank(session) == 0) {
    print({{"measured", "rate"},
           {"bytes", bytes},
           {"ranks", rueda_size(session)},
           {"ways", ways_of(session)},
           {"gpu_gigabytes_per_second", rate(times.on_gpu)},
           {"host_gigabytes_per_second", rate(times.on_host)},
           {"to_host_gigabytes_per_second", rate(times.down)},
           {"from_host_gigabytes_per_second", rate(times.up)},
           {"share_of_limit", quantile(times.shares, 0.5)},
           {"shares_of_limit", {quantile(times.shares, 0.1), quantile(times.shares, 0.9)}}});
  }
  expect_ok(rueda_shutdown(session), "shutdown");
}

}  // namespace rueda::gpu_speed
