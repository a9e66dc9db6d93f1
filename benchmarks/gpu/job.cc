// What the measurements of jobs share: a session, and tensors that are summed again and again.
#include "benchmarks/gpu/job.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace rueda::gpu_speed {

using nlohmann::json;

void print(const json& line) {
  std::printf("%s\n", line.dump().c_str());
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

json stats_of(rueda_session* session) {
  size_t bytes = 0;
  static_cast<void>(rueda_stats(session, nullptr, 0, &bytes));
  std::string text(bytes + 4096, '\0');
  expect_ok(rueda_stats(session, text.data(), text.size(), &bytes), "stats");
  return json::parse(text.c_str());
}

json ways_of(rueda_session* session) {
  json ways = json::array();
  const json stats = stats_of(session);
  for (const json& each : stats.at("algorithms")) ways.push_back(each.at("name"));
  return ways;
}

std::vector<rueda_handle> Tensors::enqueue(rueda_session* session, CUstream stream) {
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

void finish(const std::vector<rueda_handle>& handles) {
  for (const rueda_handle handle : handles) expect_ok(rueda_wait(handle, -1.0), "wait");
  for (const rueda_handle handle : handles) expect_ok(rueda_release(handle), "release");
}

Tensors tensors_on_gpu(size_t tensors, size_t bytes) {
  Tensors made{{}, static_cast<int64_t>(bytes / sizeof(float)), true};
  for (size_t i = 0; i < tensors; ++i) made.memory.push_back(Gpu::one().allocate(bytes));
  return made;
}

}  // namespace rueda::gpu_speed
