#pragma once
#include <optional>
#include <string>
#include <vector>

namespace rueda::core::launcher {

/// The first rank that failed, and what hvdrun exits with.
struct Failure {
  int rank = 0;
  /// "killed by signal 9 (Killed)", "exited with code 3", "exited with code 0 without shutdown", "lost with its host
  /// ..."
  std::string cause;
  int exit_code = 1;
  int user_signal = 0;  ///< the signal to hvdrun by which the job was ended before; 0: none
};

/// Decides which rank failed first, from what waitpid and the store say. A pure state machine: no clock, no I/O.
///
/// A signal or another code than 0 is failure. Where the user has ended the job, a rank that a signal ends after it has
/// the exit code of the user's signal, whichever one it took to end the rank. So is code 0 without a goodbye, if that
/// rank had begun `init`, or once any other rank has: that one waits for a peer which will never come. A goodbye after
/// the epoch had failed is none: who exits with code 0 then has failed all the same, and says of what. A program that
/// never calls `init` is none of our business.
///
/// A rank that leaves in the middle, as a script does that calls sys.exit(3) or shuts down behind an error, begins its
/// shutdown first and exits later; others fail of its goodbye and may well exit before it. So where a rank had begun to
/// leave before another failed, and exits by itself with another code than 0 before the job is ended, that one is the
/// first to fail.
class Judge {
 public:
  explicit Judge(int ranks) : ranks_(static_cast<size_t>(ranks)) {}

  /// The rank has begun `init`, again if it had said goodbye.
  void began(int rank);
  /// A `shutdown` of the rank begins: by these calls it is known who left before whom.
  void leaves(int rank) { ranks_[static_cast<size_t>(rank)].left = ++departures_; }
  /// The rank's `shutdown` is done.
  void said_goodbye(int rank);
  /// The rank's `shutdown` is done, but its epoch had failed before, and why.
  void shut_down_after(int rank, std::string failure);
  /// hvdrun was told by this signal to end the job. The first one counts.
  void ended_by_user(int signal);
  /// waitpid's status of the rank.
  void exited(int rank, int wait_status);
  /// The ranks that had begun to leave the epoch they were in last when the first failure came. To be told once, then.
  void were_away(const std::vector<int>& ranks);
  /// The ranks are told to end: no exit is by itself any more.
  void ending() { ending_ = true; }
  /// The rank did not start.
  void not_started(int rank, int exit_code, std::string why);
  /// Nobody will ever say how the rank ended. Of no consequence if it had ended before.
  void lost(int rank, std::string why);

  /// Set by the first failure, and then the same but for a rank that had left before that one, see above.
  const std::optional<Failure>& first_failure() const { return first_; }
  /// A rank has seen of another, which still runs as far as waitpid goes, that it counts as dead.
  void reported(int rank, std::string how);
  bool running(int rank) const { return !ranks_[static_cast<size_t>(rank)].exited; }

 private:
  struct Rank {
    bool began = false;
    bool goodbye = false;
    bool exited = false;
    bool clean = false;       // exited with code 0
    std::string failure;      // what its epoch had failed of when it shut down
    int left = 0;             // the number of its last departure; 0: none
    bool may_be_why = false;  // it had begun to leave before the first failure, and runs
  };
  void look_for_silent_leavers();

  std::vector<Rank> ranks_;
  std::optional<Failure> first_;
  bool first_by_itself_ = false;  // the first to fail exited, of no signal, before any rank was told to end
  bool any_began_ = false;
  int user_signal_ = 0;
  int departures_ = 0;
  bool ending_ = false;
};

/// hvdrun's last word on a job. `name`: the rank's.
std::string describe_failure(const Failure& failure, const std::string& name);

}  // namespace rueda::core::launcher
