#pragma once
#include <optional>
#include <string>
#include <vector>

namespace rueda::core::launcher {

/// The first rank that failed, and what hvdrun exits with.
struct Failure {
  int rank = 0;
  /// A clause that continues the rank's name: "killed by signal 9 (Killed)", "exited with code 3", "exited with code 0
  /// without shutdown", "lost with its host ...".
  std::string cause;
  int exit_code = 1;
  int user_signal = 0;  ///< the signal by which the user had ended the job before; 0 if none
};

/// Decides which rank failed first, from what waitpid and the store say. A pure state machine without clock or I/O. One
/// thread uses it.
///
/// A rank fails if
///   - a signal ends it, or it exits with another code than 0;
///   - it exits with code 0 but without a goodbye, and any rank has begun `init`: that rank would wait for it for ever;
///   - it exits with code 0 after its epoch had failed; a `shutdown` after such a failure is not a goodbye.
/// A job in which no rank ever calls `init` is judged by exit codes alone. If the user has ended the job with a signal,
/// a rank that SIGINT, SIGTERM or SIGKILL ends afterwards gets the exit code of the user's signal.
///
/// The first to exit is not always the first to fail. A rank that leaves in the middle (sys.exit(3), or a shutdown
/// after an error) begins its shutdown first and exits later; its goodbye makes others fail, and they may exit before
/// it. So a rank that had begun to leave before the first failure takes its place in the verdict if it exits by itself,
/// with another code than 0, before the job is ended.
class Judge {
 public:
  explicit Judge(int ranks) : ranks_(static_cast<size_t>(ranks)) {}

  /// The rank has begun `init`, perhaps again after a goodbye.
  void began(int rank);
  /// The rank has begun a `shutdown`. The order of these calls tells which rank left first.
  void leaves(int rank) { ranks_[static_cast<size_t>(rank)].left = ++departures_; }
  /// The rank's `shutdown` is done.
  void said_goodbye(int rank);
  /// The rank's `shutdown` is done, but its epoch had failed before, with this sentence.
  void shut_down_after(int rank, std::string failure);
  /// The user told hvdrun with this signal to end the job. Only the first call counts.
  void ended_by_user(int signal);
  /// The rank has ended with this status of waitpid.
  void exited(int rank, int wait_status);
  /// Tells which ranks had begun to leave their last epoch when the first failure came. Call it once, at that moment.
  void were_away(const std::vector<int>& ranks);
  /// hvdrun tells the ranks to end: from now on no exit counts as the rank's own.
  void ending() { ending_ = true; }
  /// The rank did not start.
  void not_started(int rank, int exit_code, std::string why);
  /// The rank's exit will never be reported. Has no effect if the rank had ended before.
  void lost(int rank, std::string why);

  /// Set by the first failure; replaced only by a rank that had left before, see above.
  const std::optional<Failure>& first_failure() const { return first_; }
  /// Another rank reports that it counts this one, which waitpid still shows as running, as dead.
  void reported(int rank, std::string how);
  /// The rank, which has said no goodbye, has been stopped for too long. Counts only from its `init` on: before that no
  /// rank waits for it.
  void stopped(int rank, std::string how);
  bool running(int rank) const { return !ranks_[static_cast<size_t>(rank)].exited; }

 private:
  struct Rank {
    bool began = false;
    bool goodbye = false;
    bool exited = false;
    bool clean = false;       // exited with code 0
    std::string failure;      // the failure of its epoch, if that came before its shutdown
    int left = 0;             // the number of its last departure; 0 if none
    bool may_be_why = false;  // it left before the first failure and still runs
  };
  void look_for_silent_leavers();

  std::vector<Rank> ranks_;
  std::optional<Failure> first_;
  bool first_by_itself_ = false;  // it exited with a code before any rank was told to end
  bool any_began_ = false;
  int user_signal_ = 0;
  int departures_ = 0;
  bool ending_ = false;
};

/// Returns hvdrun's last sentence about a failed job. `name` is the rank's.
std::string describe_failure(const Failure& failure, const std::string& name);

}  // namespace rueda::core::launcher
