#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace rueda::test {

/// A cgroup whose processes can be frozen together, as `docker pause` does. No signal tells of it, and the kernel does
/// not show its processes as stopped. Its destructor thaws them, puts them back and removes the cgroup. Declare it
/// after what kills and reaps the processes: a frozen process does not die. Used by one thread.
class Freezer {
 public:
  /// The kernel has two kinds. They show frozen processes in different states.
  enum class Kind { kVersion1, kVersion2 };
  /// Returns empty if this machine does not let us make one.
  static std::optional<Freezer> make(Kind kind);
  Freezer(Freezer&& other) noexcept;
  Freezer& operator=(Freezer&&) = delete;
  ~Freezer();

  void add(pid_t pid);
  /// Returns once all are frozen. Throws std::runtime_error if they do not freeze.
  void freeze();
  void thaw();

 private:
  Freezer(Kind kind, std::string folder, std::string home);
  bool frozen() const;

  Kind kind_;
  std::string folder_;  ///< empty once moved from
  std::string home_;    ///< the cgroup that its processes came from
  std::vector<pid_t> pids_;
};

}  // namespace rueda::test
