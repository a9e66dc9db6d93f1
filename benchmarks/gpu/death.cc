// How long it takes from the death of a rank to the error of the others: while NCCL makes a communicator, in the first
// sum, and in the middle of many. What NCCL logs shows the first, what the memory of the GPU holds the second.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "benchmarks/gpu/job.h"

namespace rueda::gpu_speed {
namespace {

/// A rank has time to die within the first sum.
constexpr size_t kFirstBytes = 64 << 20;
constexpr size_t kSteadyBytes = 4 << 20;
constexpr int kSteadyRounds = 100;

[[noreturn]] void die(const std::string& file, const std::string& what) {
  std::ofstream(file) << std::fixed << now() << ' ' << what << '\n' << std::flush;
  static_cast<void>(::kill(::getpid(), SIGKILL));
  fail("lives on");
}

bool says(const std::string& file, const char* words) {
  std::ifstream in(file);
  return std::string(std::istreambuf_iterator<char>(in), {}).find(words) != std::string::npos;
}

/// Returns once NCCL has begun to make the communicator of the operation, as its log says.
std::string await_making(rueda_handle handle, CUstream stream, const std::string& log) {
  while (!says(log, "Init START")) {
    if (rueda_wait_stream(handle, stream, 0.0) == RUEDA_OK) fail("the communicator was made before NCCL spoke of it");
  }
  return says(log, "Init COMPLETE") ? "communicator made" : "communicator in the making";
}

/// Returns once a sum of the tensor, in place, has come to its second element. Numbers are those of Gpu::allocate().
std::string await_part(const Tensors& tensors) {
  Gpu& gpu = Gpu::one();
  CUstream const stream = gpu.make_stream();
  auto* const seen = static_cast<volatile float*>(gpu.allocate_pinned(sizeof(float)));
  const auto read = [&](int64_t element) {
    gpu.copy(const_cast<float*>(seen), tensors.memory[0] + static_cast<size_t>(element) * sizeof(float), sizeof(float),
             stream);
    gpu.drain(stream);
    return *seen;
  };
  const int64_t last = tensors.count - 1;
  while (read(1) == 1.0f) {
  }
  return read(last) == static_cast<float>(last % 97) ? "first sum under way" : "first sum ended here";
}

/// Before the job begins. `log`: of NCCL's, on ranks that may die.
void prepare(const std::string& place, const std::string& file, const std::string& log) {
  const char* const rank = std::getenv("RUEDA_RANK");
  if (rank == nullptr) fail("hvdrun starts the ranks of this measurement");
  if (std::string(rank) == "0") {
    static_cast<void>(std::remove(file.c_str()));
  } else if (place == "making") {
    static_cast<void>(std::remove(log.c_str()));
    ::setenv("NCCL_DEBUG", "INFO", 1);
    ::setenv("NCCL_DEBUG_FILE", log.c_str(), 1);
  }
}

/// What a survivor says, whose operation has failed now.
[[noreturn]] void tell(int32_t code, const std::string& place, const std::string& file) {
  const double told = now();
  if (code != RUEDA_PEER_LOST) fail(std::string("a death gives: ") + rueda_last_error());
  double died = 0;
  std::string when;
  std::getline(std::ifstream(file) >> died >> std::ws, when);
  if (when.empty()) fail("the rank that was to be killed died otherwise");
  print({{"measured", "death"},
         {"place", place},
         {"when", when},
         {"milliseconds", (told - died) * 1e3},
         {"sentence", rueda_last_error()}});
  std::_Exit(0);
}

}  // namespace

void measure_death(const std::string& place, const std::string& file) {
  const std::string log = file + ".nccl";
  prepare(place, file, log);
  rueda_session* const session = begin();
  Tensors tensors = tensors_on_gpu(1, place == "steady" ? kSteadyBytes : kFirstBytes);
  CUstream const stream = Gpu::one().make_stream();
  const bool dies = rueda_rank(session) == rueda_size(session) - 1;
  for (int round = 0;; ++round) {
    const std::vector<rueda_handle> handles = tensors.enqueue(session, stream);
    if (dies && place == "making") die(file, await_making(handles.front(), stream, log));
    if (dies && place == "first") die(file, await_part(tensors));
    if (dies && round == kSteadyRounds) die(file, "sums go on");
    const int32_t code = rueda_wait(handles.front(), 30.0);
    if (code != RUEDA_OK) tell(code, place, file);
    expect_ok(rueda_release(handles.front()), "release");
  }
}

}  // namespace rueda::gpu_speed
