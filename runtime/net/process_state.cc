// Reads what a process does from /proc, in two steps because a pidfd is all that is known of it: /proc/self/fdinfo
// turns the pidfd into a pid that is certain to belong to the same process, then /proc/PID/stat has the state letter.
#include "runtime/net/process_state.h"

#include <string>

#include "runtime/base/file_text.h"

namespace rueda::core {

std::optional<char> process_state(const UniqueFd& pidfd) {
  if (!pidfd.valid()) return std::nullopt;
  // "Pid:\t123": the number in our pid namespace; 0 if it has none there, -1 if the process is gone.
  const std::string info = file_text("/proc/self/fdinfo/" + std::to_string(pidfd.get()));
  const size_t line = info.find("Pid:\t");
  if (line == std::string::npos) return std::nullopt;
  const size_t begin = line + 5;
  const std::string pid = info.substr(begin, info.find('\n', begin) - begin);
  if (pid.empty() || pid == "0" || pid[0] == '-') return std::nullopt;
  // "123 (a name) with ) in it) S ...": a name may contain parentheses, so the letter follows the last one.
  const std::string stat = file_text("/proc/" + pid + "/stat");
  const size_t name_end = stat.rfind(") ");
  if (name_end == std::string::npos || name_end + 2 >= stat.size()) return std::nullopt;
  return stat[name_end + 2];
}

}  // namespace rueda::core
