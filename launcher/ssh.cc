// The command line of ssh, and what its failures mean. Two shells read the last word: the login shell of the other
// host, which may be csh or fish and so gets nothing but quoted words, and /bin/sh, which runs the script. `exec` in
// both leaves no shell between sshd and hvdrun, so sshd sees at once when hvdrun's guard ends.
//
// ssh exits with 255 for its own failures and else with the code of the remote command, so 127 means that the script
// found no hvdrun.

#include "launcher/ssh.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include "launcher/wait_status.h"
#include "runtime/base/printable.h"

namespace rueda::core::launcher {
namespace {

constexpr int kSshFailed = 255;
constexpr int kNotFound = 127;

// `sh -c SCRIPT PATH` sets $0 to PATH, the path of hvdrun on its own host.
constexpr std::string_view kScript = "if test -x \"$0\"; then exec \"$0\" --agent; else exec hvdrun --agent; fi";

}  // namespace

std::string shell_word(std::string_view text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::vector<std::string> ssh_command(const HostSlots& host, const SshOptions& options, const std::string& hvdrun) {
  std::vector<std::string> words = {"ssh", "-T", "-x", "-a"};
  const auto set = [&words](std::string option) {
    words.emplace_back("-o");
    words.push_back(std::move(option));
  };
  set("BatchMode=yes");
  set(fmt::format("ConnectTimeout={}", options.connect_timeout.count()));
  // ssh notices a dead network after 15 s, in case hvdrun is gone; while hvdrun lives, its own pings are faster.
  set("ServerAliveInterval=5");
  set("ServerAliveCountMax=3");
  set("ControlMaster=no");
  set("ClearAllForwardings=yes");
  set("PermitLocalCommand=no");
  set("LogLevel=ERROR");
  if (options.port != 0) words.insert(words.end(), {"-p", std::to_string(options.port)});
  if (!options.identity_file.empty()) words.insert(words.end(), {"-i", options.identity_file});
  if (!host.user.empty()) words.insert(words.end(), {"-l", host.user});
  words.insert(words.end(), {"--", host.name});
  words.push_back(fmt::format("exec /bin/sh -c {} {}", shell_word(kScript), shell_word(hvdrun)));
  return words;
}

std::string explain_command_end(const std::string& command, int wait_status, std::string_view last_line,
                                const std::string& hvdrun) {
  const std::string prefix = command + ": ";  // ssh begins some of its sentences with its name
  if (last_line.starts_with(prefix)) last_line.remove_prefix(prefix.size());
  const std::string said = last_line.empty() ? "" : fmt::format(": {}", printable(last_line));
  const int code = exit_code_of(wait_status);
  if (code == kSshFailed) {
    const bool stranger = last_line.find("Host key verification failed") != std::string_view::npos;
    return "cannot be reached by " + command + (said.empty() ? ": it printed no reason" : said) +
           (stranger ? " (log in there once by hand so that ssh learns the host's key, or add the key to known_hosts)"
                     : "");
  }
  if (code == kNotFound)
    return fmt::format("has no hvdrun that can start, neither {} nor one in its PATH{}", hvdrun, said);
  return fmt::format("has no agent: {} {} before it answered{}", command, describe_wait_status(wait_status), said);
}

}  // namespace rueda::core::launcher
