// Workers 0 and 1 of a job whose later workers run examples/elastic.c. Worker 1 dies, so that a new worker comes to its
// slot. Worker 0 has the training, and keeps it: it joins the new worker, takes part in the first all-reduce of its
// round, says so and waits for its own end. The new worker's call has returned with their plan then, so hvdrun takes it
// for one that has the training, too.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "rueda.h"

namespace {

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "%s: %s\n", what, rueda_last_error());
  std::exit(1);
}

/// The all-reduce with which the example finds the rank with the most commits. Returns its code.
int32_t compare_commits(rueda_session* session) {
  int64_t most_and_least[2] = {1, -1};
  const int64_t count = 2;
  rueda_tensor tensor{};
  tensor.struct_size = sizeof tensor;
  tensor.data = most_and_least;
  tensor.dtype = RUEDA_I64;
  tensor.dimensions = 1;
  tensor.shape = &count;
  rueda_op_options options{};
  options.struct_size = sizeof options;
  options.name = "commits";
  return rueda_allreduce(session, &tensor, &tensor, RUEDA_MAX, &options);
}

/// Waits for the notice of a plan that this worker is not in yet.
void await_plan(rueda_session* session) {
  pollfd notice{-1, POLLIN, 0};
  if (rueda_membership_fd(session, &notice.fd) != RUEDA_OK) give_up("the descriptor of notices");
  rueda_membership_info info{};
  info.struct_size = sizeof info;
  while (info.pending_plan == 0) {
    if (::poll(&notice, 1, -1) != 1) give_up("poll");
    if (rueda_membership(session, &info) != RUEDA_OK) give_up("membership");
  }
}

}  // namespace

int main() {
  rueda_session* session = nullptr;
  if (rueda_init(nullptr, &session) != RUEDA_OK) give_up("init");
  if (rueda_worker_id(session) != 0) kill(getpid(), SIGKILL);
  // If worker 1 dies before this call of init has formed the plan with it, init returns with a plan of this worker
  // alone.
  if (rueda_size(session) > 1) {
    if (compare_commits(session) == RUEDA_OK) give_up("worker 1 lives");
    if (rueda_reset(session, nullptr) != RUEDA_OK) give_up("reset");
  }
  while (rueda_size(session) == 1) {
    await_plan(session);
    if (rueda_reset(session, nullptr) != RUEDA_OK) give_up("reset");
  }
  if (compare_commits(session) != RUEDA_OK) give_up("the new worker");
  std::printf("has met the new worker\n");
  std::fflush(stdout);
  for (;;) pause();
}
