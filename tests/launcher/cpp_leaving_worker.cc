// A worker of an elastic job, through the C++ binding: it waits for the notice that workers leave, and resets. Prints a
// line before, and what the reset came to. A worker that is removed tries what is left to it, and ends with 0.
#include <poll.h>

#include <cstdio>
#include <string>
#include <vector>

#include "rueda.hpp"

namespace {

/// One write a line: the workers share hvdrun's pipe.
void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

void await_removals(const rueda::Session& session) {
  pollfd notice{session.membership_fd(), POLLIN, 0};
  while (!session.membership().workers_removed) ::poll(&notice, 1, -1);
}

std::string sum(const rueda::Session& session) {
  std::vector<int64_t> values = {1};
  session.allreduce(values, {.op = rueda::ReduceOp::kSum, .name = "sum"});
  return std::to_string(values.front());
}

/// The class of the error that `call` throws.
template <typename Call>
std::string thrown(Call&& call) {
  try {
    call();
  } catch (const rueda::Removed& error) {
    return std::string("Removed ") + error.code_name();
  } catch (const rueda::SessionOver&) {
    return "SessionOver";
  }
  return "nothing";
}

void leave(const rueda::Session& session) {
  try {
    session.reset();
    say("goes on as rank " + std::to_string(session.rank()) + ", sum " + sum(session));
  } catch (const rueda::Removed& removed) {
    say(std::string(removed.code_name()) + ": " + removed.what());
    say("a second reset throws " + thrown([&] { session.reset(); }));
    say("a sum throws " + thrown([&] { sum(session); }));
  }
}

}  // namespace

int main() {
  try {
    rueda::Session session;
    say("starts, sum " + sum(session));
    await_removals(session);
    leave(session);
    session.shutdown();
    return 0;
  } catch (const rueda::Error& error) {
    std::fprintf(stderr, "%s: %s\n", error.code_name(), error.what());
    return 1;
  }
}
