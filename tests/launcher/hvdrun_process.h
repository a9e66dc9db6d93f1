#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/base/unique_fd.h"

namespace rueda::core::launcher {

/// A process found by the mark in its environment.
struct MarkedProcess {
  pid_t pid = -1;
  std::string name;  ///< as in /proc/pid/comm
};

/// One run of the real hvdrun, with pipes to its three streams. All processes of the run carry a mark in their
/// environment, by which they are found wherever they went. Waits are bounded by two minutes and then fail the test.
class HvdrunProcess {
 public:
  /// `before` is a command that runs hvdrun elsewhere, as NetLab::on returns; `pid` and `wait` then mean that command.
  explicit HvdrunProcess(const std::vector<std::string>& arguments, const std::vector<std::string>& before = {});
  /// Kills every process that is left of the run.
  ~HvdrunProcess();

  void send(int signal) const;
  /// Sends a signal to the process of that name.
  void send_by_name(const std::string& name, int signal) const;
  void write_input(const std::string& bytes) const;
  void close_input() { input_.reset(); }
  /// Reads on until stdout holds the text.
  void read_until(const std::string& text);
  /// Reads on until stderr holds it.
  void read_errors_until(const std::string& text);
  /// Reads both streams to their ends. Returns the exit code, or minus the signal that ended hvdrun.
  int wait();

  pid_t pid() const { return pid_; }
  const std::string& out() const { return out_; }
  const std::string& err() const { return err_; }
  /// The last line of stderr, or empty.
  std::string last_error() const;
  /// The lines of stdout or stderr that begin with the prefix, without it.
  static std::vector<std::string> lines(const std::string& text, const std::string& prefix);

  /// Living processes of this run, including hvdrun, guards and agents.
  std::vector<MarkedProcess> processes() const;
  /// The process of this run with this name.
  pid_t process_named(const std::string& name) const;
  /// A process that belongs to this worker of an elastic job.
  pid_t process_of_worker(int worker) const;
  pid_t agent_of_worker(int worker) const { return parent_of(process_of_worker(worker)); }
  static pid_t parent_of(pid_t pid);
  /// Waits for a process that need not be our child, and reads nothing meanwhile.
  static void wait_for_end_of(pid_t pid);
  /// Waits until no process of this run lives.
  void wait_for_all_to_end() const;

 private:
  bool read_some();
  void read_until(const std::string& text, const std::string& stream, const char* name);
  std::string mark_;
  pid_t pid_ = -1;
  bool reaped_ = false;
  UniqueFd input_, output_, errors_;
  std::string out_, err_;
};

}  // namespace rueda::core::launcher
