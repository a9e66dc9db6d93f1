// One rank that does nothing but blocking all-reduces of 4 B between two marks, for scripts/strace-steady-state, which
// counts the system calls there. The marks are calls of getppid, which nothing else here makes.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "bindings/c/rueda.h"

namespace {

// The first operations negotiate, grow buffers and fill caches; after so many nothing is new.
constexpr int kWarmUp = 2000;

int fail(const char* what) {
  std::fprintf(stderr, "steady_state: %s: %s\n", what, rueda_last_error());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 10000;
  rueda_session* session = nullptr;
  if (rueda_init(nullptr, &session) != RUEDA_OK) return fail("init");
  float value = 1;
  rueda_tensor tensor{};
  tensor.struct_size = sizeof tensor;
  tensor.data = &value;
  tensor.dtype = RUEDA_F32;
  rueda_op_options options{};
  options.struct_size = sizeof options;
  options.name = "steady";
  for (int round = 0; round < kWarmUp + rounds; ++round) {
    if (round == kWarmUp) static_cast<void>(::getppid());
    if (rueda_allreduce(session, &tensor, &tensor, RUEDA_MAX, &options) != RUEDA_OK) return fail("all-reduce");
  }
  static_cast<void>(::getppid());
  // Looked at after the second mark: printing would be a system call.
  const bool right = value == 1.0f;
  if (rueda_shutdown(session) != RUEDA_OK) return fail("shutdown");
  if (!right) std::fprintf(stderr, "steady_state: a maximum of ones gave %g\n", static_cast<double>(value));
  return right ? 0 : 1;
}
