#pragma once
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/unique_fd.h"
#include "tests/support/reserved_port.h"

namespace rueda::test {

/// How long a test waits for what must come. Never reached when the program is right, however slow the machine.
inline core::Deadline patience() { return core::Deadline::after(std::chrono::seconds(120)); }

/// How a rank process ended and what it said.
struct RankOutcome {
  int exit_code = -1;  ///< -1: it ended by a signal
  int signal = 0;
  std::vector<std::string> reports;  ///< lines of `report`
  std::string output;                ///< its stdout and stderr
  /// The text after "<word> " of the first report that begins with `word` and holds all `parts`; throws
  /// std::runtime_error with everything the rank said if there is none.
  std::string report(const std::string& word, const std::vector<std::string>& parts = {}) const;
};

/// Ranks of one job as processes that can be killed: this test program again, each running one hidden test case, with
/// the environment of a job started by hand: rank 0's store, key, rank, size. Used by one thread. Whatever still runs
/// is killed and reaped by the destructor, and dies with the test by itself.
///
///   TEST_CASE("rank: reduces for ever", "[.]") { rank_report("up"); ... }
///   RankProcesses ranks({.size = 3, .body = "rank: reduces for ever"});
///   ranks.await(0, "up");
///   ranks.signal(2, SIGKILL);
///   for (const RankOutcome& outcome : ranks.finish()) ...
class RankProcesses {
 public:
  using Variables = std::map<std::string, std::string>;
  struct Options {
    int size = 1;                                          ///< as the ranks are told
    std::string body;                                      ///< name of the hidden test case
    Variables variables = {};                              ///< for all ranks
    std::function<Variables(int rank)> of_rank = nullptr;  ///< for one rank, after those
    int started = -1;                                      ///< only the ranks below this number start; -1: all
    std::string key = {};                                  ///< the job's; empty: one is drawn
  };
  /// Throws std::runtime_error where a process cannot be had; so do all functions that wait in vain.
  explicit RankProcesses(const Options& options);
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  /// Starts one more process, with the next number as its rank.
  void start_another(const Options& options) { start(options, static_cast<int>(processes_.size())); }

  pid_t pid(int rank) const;
  void signal(int rank, int number);
  /// Writes a line that the rank reads with `rank_await`.
  void tell(int rank, const std::string& line);
  /// Waits for the first report that begins with `word` and holds all `parts`, and returns the rest of it.
  std::string await(int rank, const std::string& word, const std::vector<std::string>& parts = {});
  /// Waits until the rank is stopped by a signal, as its kernel sees it; throws where it has ended instead.
  void await_stopped(int rank) const;
  /// Waits until all have ended. Those that have not when patience ends are killed, which their outcome shows.
  std::vector<RankOutcome> finish();

 private:
  struct Process;
  void start(const Options& options, int rank);
  void pump(core::Deadline deadline, const std::function<bool()>& done);
  ReservedPort port_;  ///< where rank 0 serves the store
  std::string key_;
  std::vector<std::unique_ptr<Process>> processes_;
};

/// In a rank process: tells the test a line, and reads the line that it was told ("" when the test is gone).
void rank_report(const std::string& line);
std::string rank_await();

}  // namespace rueda::test
