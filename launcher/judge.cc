// The rules that name the first rank to fail. They live here without clock or I/O, so that tests can replay every order
// in which exits, goodbyes and signals may arrive. `look_for_silent_leavers` runs after each event that can turn an
// earlier exit with code 0 into a failure: another exit, or a rank that begins `init` later.

#include "launcher/judge.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "launcher/wait_status.h"

namespace rueda::core::launcher {
namespace {

// Returns whether it is a signal by which hvdrun ends ranks, and not one that a rank caused, such as SIGSEGV.
bool ends(int signal) { return signal == SIGINT || signal == SIGTERM || signal == SIGKILL; }

}  // namespace

void Judge::began(int rank) {
  auto& one = ranks_[static_cast<size_t>(rank)];
  one.began = true;
  one.goodbye = false;
  one.failure.clear();
  any_began_ = true;
  look_for_silent_leavers();
}

void Judge::said_goodbye(int rank) { ranks_[static_cast<size_t>(rank)].goodbye = true; }

void Judge::shut_down_after(int rank, std::string failure) {
  ranks_[static_cast<size_t>(rank)].failure = std::move(failure);
}

void Judge::ended_by_user(int signal) {
  if (user_signal_ == 0) user_signal_ = signal;
}

void Judge::exited(int rank, int wait_status) {
  auto& one = ranks_[static_cast<size_t>(rank)];
  one.exited = true;
  one.clean = WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0;
  const bool by_itself = WIFEXITED(wait_status) && user_signal_ == 0 && !ending_;
  const bool is_why = first_ && one.may_be_why && by_itself;
  if (!one.clean && (!first_ || is_why)) {
    const bool ended = user_signal_ != 0 && WIFSIGNALED(wait_status) && ends(WTERMSIG(wait_status));
    const int code = ended ? 128 + user_signal_ : exit_code_of(wait_status);
    first_ = Failure{rank, describe_wait_status(wait_status), code, user_signal_};
    first_by_itself_ = by_itself;
    // Once a rank that left early is named, only ranks that left before it may still be the cause.
    for (Rank& other : ranks_) other.may_be_why = other.may_be_why && (!is_why || other.left < one.left);
  }
  look_for_silent_leavers();
}

void Judge::were_away(const std::vector<int>& ranks) {
  if (!first_ || !first_by_itself_) return;  // another rank's goodbye kills no rank by signal
  // If the first to fail had begun to leave itself, only ranks that left before it can be the cause.
  const bool failed_away = std::find(ranks.begin(), ranks.end(), first_->rank) != ranks.end();
  const int failed = failed_away ? ranks_[static_cast<size_t>(first_->rank)].left : INT_MAX;
  for (const int rank : ranks) {
    Rank& one = ranks_[static_cast<size_t>(rank)];
    one.may_be_why = !one.exited && one.left != 0 && one.left < failed;
  }
}

void Judge::not_started(int rank, int exit_code, std::string why) {
  ranks_[static_cast<size_t>(rank)].exited = true;
  if (!first_) first_ = Failure{rank, std::move(why), exit_code};
}

void Judge::lost(int rank, std::string why) {
  if (running(rank)) not_started(rank, 1, std::move(why));
}

void Judge::reported(int rank, std::string how) {
  if (rank < 0 || static_cast<size_t>(rank) >= ranks_.size() || !running(rank) || first_) return;
  first_ = Failure{rank, std::move(how), 1};
}

void Judge::stopped(int rank, std::string how) {
  if (ranks_[static_cast<size_t>(rank)].began) reported(rank, std::move(how));
}

void Judge::look_for_silent_leavers() {
  if (!any_began_ || first_) return;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (!ranks_[rank].clean || ranks_[rank].goodbye) continue;
    const std::string& failure = ranks_[rank].failure;
    const std::string how = failure.empty() ? "without shutdown" : fmt::format("after its job had failed: {}", failure);
    first_ = Failure{static_cast<int>(rank), fmt::format("exited with code 0 {}", how), 1};
    first_by_itself_ = true;
    return;
  }
}

std::string describe_failure(const Failure& failure, const std::string& name) {
  const int user = failure.user_signal;
  const std::string first =
      user == 0 ? "the first to fail: " : fmt::format("ended by {}; the first to end: ", describe_signal(user));
  const bool sentence = failure.cause.starts_with("it");  // "it has been stopped", "its host has ..."
  return first + name + (sentence ? ": " : " ") + failure.cause;
}

}  // namespace rueda::core::launcher
