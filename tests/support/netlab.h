#pragma once
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

namespace rueda::test {

/// A process inside a host of the lab, with the pid that this program sees.
struct LabProcess {
  pid_t pid = -1;
  std::string name;  ///< as in /proc/pid/comm
};

/// Hosts for tests: each a set of namespaces (network, processes, mounts, host name) with a running sshd, host keys of
/// its own, and /etc/hosts, /etc/ssh and /run of its own; the rest of the file system is this machine's. root of each
/// may log in to every other. Two hosts hang on one cable (veth), more on a bridge.
///
///   node1  eth0 10.77.1.1 fd77:1::1   eth1 10.77.2.1 fd77:2::1 ...      node2  eth0 10.77.1.2 ...
///
/// Everything dies with this program, however it ends: each host's first process has PDEATHSIG, and what is in a
/// process namespace dies with its first process; the namespaces go with their last one, and all files lie in their
/// memory. Used by one thread, before the program has others. What cannot be had throws std::runtime_error with the
/// reason.
class NetLab {
 public:
  struct Options {
    int hosts = 2;
    int networks = 1;
    std::string rate = {};  ///< of every interface, as tc's tbf takes it ("1gbit"); empty: unshaped
  };
  explicit NetLab(const Options& options);
  ~NetLab();
  NetLab(const NetLab&) = delete;
  NetLab& operator=(const NetLab&) = delete;

  /// Why there can be no lab here, or empty.
  static std::string why_not();
  /// Where there can be none, says so and ends the program with the exit code that CTest takes for "skipped" (77).
  static void skip_without();

  /// Hosts count from 0; host 0 is node1.
  static std::string name(int host);
  static std::string address(int host, int network = 0);
  static std::string address6(int host, int network = 0);

  /// The words to put before a command so that it runs on the host, in `/`.
  std::vector<std::string> on(int host) const;
  /// Runs a command on the host to its end and returns its stdout; another exit code than 0 throws with its stderr.
  std::string run(int host, const std::vector<std::string>& words) const;
  /// As `run`, for a shell's line.
  std::string shell(int host, const std::string& line) const { return run(host, {"sh", "-ec", line}); }

  /// Writes a file that only this host sees; in /etc/ssh or /run.
  void write_file(int host, const std::string& path, const std::string& text) const;
  /// Pulls the host's cable out of the bridge (three hosts or more): its interface stays up, and hears nothing.
  void unplug(int host, int network = 0) const;
  /// Has all that the host sends be lost, without an error; it still receives.
  void mute(int host, int network = 0) const;
  /// Has all that is sent to the host be lost (three hosts or more); what it sends still arrives.
  void deafen(int host, int network = 0) const;
  /// Takes the host's interface down: what was on the way is lost, and nobody is told.
  void cut(int host, int network = 0) const;
  /// Ends every process of the host at once, and its interfaces with them.
  void kill_host(int host);
  /// What runs on the host, without what belongs to the lab: its first process and every sshd.
  std::vector<LabProcess> processes(int host) const;
  /// The one of this name, or -1.
  pid_t process_named(int host, const std::string& name) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rueda::test
