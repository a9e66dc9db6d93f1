// A worker of an elastic job with the real engine: resetting_rank STEPS VICTIM. All-reduces its step in each plan, so
// that all go on from the same one, then counts ranks step by step. The worker with the number VICTIM kills itself in
// the middle; the others reset and go on. Prints "plan N rank R of S from step K" after each start of a plan.
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "rueda.h"

namespace {

int64_t reduce(rueda_session* session, const char* name, int64_t& value, int32_t op) {
  rueda_tensor tensor{};
  tensor.struct_size = sizeof tensor;
  tensor.data = &value;
  tensor.dtype = RUEDA_I64;
  rueda_op_options options{};
  options.struct_size = sizeof options;
  options.name = name;
  return rueda_allreduce(session, &tensor, &tensor, op, &options);
}

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "%s: %s\n", what, rueda_last_error());
  std::exit(1);
}

/// Works in one plan. Returns 0 once all steps are done, else the code of the operation that failed.
int64_t work(rueda_session* session, int64_t steps, int64_t victim, int64_t& step) {
  if (const int64_t code = reduce(session, "step", step, RUEDA_MAX); code != RUEDA_OK) return code;
  rueda_membership_info info{};
  info.struct_size = sizeof info;
  if (rueda_membership(session, &info) != RUEDA_OK) give_up("membership");
  std::printf("plan %d rank %d of %d from step %d\n", static_cast<int>(info.plan), info.rank, info.size,
              static_cast<int>(step));
  std::fflush(stdout);
  for (; step < steps; ++step) {
    if (rueda_worker_id(session) == victim && step == steps / 2) kill(getpid(), SIGKILL);
    int64_t ranks = 1;
    if (const int64_t code = reduce(session, "count", ranks, RUEDA_SUM); code != RUEDA_OK) return code;
    if (ranks != info.size) give_up("a wrong sum");
  }
  return RUEDA_OK;
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::atoll(argv[1]) : 0;
  const int64_t victim = argc > 2 ? std::atoll(argv[2]) : -1;
  rueda_session* session = nullptr;
  if (rueda_init(nullptr, &session) != RUEDA_OK) give_up("init");
  int64_t step = 0;
  while (work(session, steps, victim, step) != RUEDA_OK) {
    if (rueda_reset(session, nullptr) != RUEDA_OK) give_up("reset");
  }
  return rueda_shutdown(session) == RUEDA_OK ? 0 : 1;
}
