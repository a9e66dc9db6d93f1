// A worker of an elastic job of four, through the C++ binding: cpp_resetting_rank VICTIM [GATE]. All ranks add up
// 2 * (rank + 1) at each step. In the middle the worker with the number VICTIM kills itself; the others reset and go
// on. After the last step they wait for a new worker and take it in. With GATE they do not: rank 1 withholds the
// operation "withheld" until it has read a byte from that file. Prints a line for each plan, and one in the end. A
// worker that comes too late for the job prints nothing.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "rueda.hpp"

namespace {

constexpr int64_t kSteps = 20;
constexpr int32_t kWorkers = 4;

/// What a worker keeps over a reset.
struct State {
  int64_t step = 0;
  int64_t total = 0;
};

/// One write a line: the workers share hvdrun's pipe.
void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

int64_t reduced(const rueda::Session& session, const std::string& name, int64_t value, rueda::ReduceOp op) {
  std::vector<int64_t> values = {value};
  session.allreduce(values, {.op = op, .name = name});
  return values.front();
}

/// "plan 2 rank 1 of 3: workers 0 2 3, state 1 1 1"
std::string place(const rueda::Session& session) {
  const rueda::Membership membership = session.membership();
  std::string workers, states;
  for (int32_t rank = 0; rank < membership.size; ++rank) {
    workers += " " + std::to_string(session.worker_at(rank));
    states += session.holds_state(rank) ? " 1" : " 0";
  }
  if (session.worker_at(membership.rank) != session.worker_id()) return "another worker has my rank";
  if (session.holds_state(membership.rank) != membership.holds_state) return "two answers about the state";
  return "plan " + std::to_string(membership.plan) + " rank " + std::to_string(membership.rank) + " of " +
         std::to_string(membership.size) + ": workers" + workers + ", state" + states;
}

void take_steps(const rueda::Session& session, int64_t victim, State& state) {
  // A death may have kept a worker from the last commit that another one has made.
  const int64_t least = reduced(session, "least", state.step, rueda::ReduceOp::kMin);
  const int64_t most = reduced(session, "most", state.step, rueda::ReduceOp::kMax);
  if (most > least) {  // the totals of equal steps are equal, so the greatest is that of the last step
    state.total = reduced(session, "total", state.total, rueda::ReduceOp::kMax);
    state.step = most;
  }
  while (state.step < kSteps) {
    if (session.worker_id() == victim && state.step == kSteps / 2) ::kill(::getpid(), SIGKILL);
    const int64_t sum = reduced(session, "sum", 2 * (session.rank() + 1), rueda::ReduceOp::kSum);
    state = {state.step + 1, state.total + sum};
  }
}

void await_gate(const char* gate) {
  const int fd = ::open(gate, O_RDONLY | O_CLOEXEC);
  char byte = 0;
  // TSan holds back the signal that asks for a dump from a thread in read, but not from one in poll.
  pollfd ready{fd, POLLIN, 0};
  while (::poll(&ready, 1, -1) < 0 && errno == EINTR) continue;
  if (::read(fd, &byte, 1) < 0) std::perror("read");
  ::close(fd);
}

/// Waits for the notice that a worker is ready to join.
void await_newcomer(const rueda::Session& session) {
  pollfd notice{session.membership_fd(), POLLIN, 0};
  while (!session.membership().workers_added) ::poll(&notice, 1, -1);
}

/// Works in one plan. Returns whether there is more to do in the next one.
bool train(const rueda::Session& session, int64_t victim, const char* gate, State& state) {
  say(place(session));
  take_steps(session, victim, state);
  if (gate != nullptr && session.rank() == 1) await_gate(gate);
  if (gate != nullptr) reduced(session, "withheld", 1, rueda::ReduceOp::kSum);
  if (gate != nullptr || session.size() == kWorkers) return false;
  await_newcomer(session);
  return true;
}

/// Returns whether another plan has to come.
bool goes_on(const rueda::Session& session, int64_t victim, const char* gate, State& state) {
  try {
    return train(session, victim, gate, state);
  } catch (const rueda::PeerLost&) {
    return true;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t victim = argc > 1 ? std::atoll(argv[1]) : -1;
  const char* const gate = argc > 2 ? argv[2] : nullptr;
  State state;
  try {
    rueda::Session session;
    while (goes_on(session, victim, gate, state)) session.reset();
    say("total " + std::to_string(state.total) + " after step " + std::to_string(state.step));
    session.shutdown();
    return 0;
  } catch (const rueda::Removed&) {
    return 0;
  } catch (const rueda::Error& error) {
    std::fprintf(stderr, "%s: %s\n", error.code_name(), error.what());
    return 1;
  }
}
