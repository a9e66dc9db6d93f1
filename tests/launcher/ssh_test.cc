// The command line of ssh, read back by a real shell, and the clause that explains how ssh ended.

#include "launcher/ssh.h"

#include <sys/wait.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>

using namespace rueda::core::launcher;
using Words = std::vector<std::string>;

namespace {

// Returns the words that a shell reads in the line.
std::string read_by_shell(const std::string& line) {
  FILE* const pipe = popen(("printf '%s\n' " + line).c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  std::array<char, 1024> buffer{};
  while (const size_t got = fread(buffer.data(), 1, buffer.size(), pipe)) text.append(buffer.data(), got);
  pclose(pipe);
  return text;
}

bool has_pair(const Words& words, const std::string& first, const std::string& second) {
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == first && words[i + 1] == second) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("ssh gets the host after a -- and one word for the other host's shell") {
  const auto words = ssh_command({"node2", 4, ""}, {}, "/opt/rueda/bin/hvdrun");
  REQUIRE(words.size() > 3);
  CHECK(words.front() == "ssh");
  CHECK(Words(words.end() - 3, words.end() - 1) == Words{"--", "node2"});
  CHECK(words.back() ==
        "exec /bin/sh -c 'if test -x \"$0\"; then exec \"$0\" --agent; else exec hvdrun --agent; fi' "
        "'/opt/rueda/bin/hvdrun'");
  CHECK(has_pair(words, "-o", "BatchMode=yes"));
  for (const char* flag : {"-p", "-i", "-l"}) CHECK(std::find(words.begin(), words.end(), flag) == words.end());
}

TEST_CASE("port, key file and user are passed on to ssh") {
  SshOptions options;
  options.port = 2222;
  options.identity_file = "/keys/id";
  options.connect_timeout = std::chrono::seconds(7);
  const auto words = ssh_command({"fd00::7", 1, "me"}, options, "/bin/hvdrun");
  CHECK(has_pair(words, "-p", "2222"));
  CHECK(has_pair(words, "-i", "/keys/id"));
  CHECK(has_pair(words, "-l", "me"));
  CHECK(has_pair(words, "-o", "ConnectTimeout=7"));
  CHECK(has_pair(words, "--", "fd00::7"));
}

TEST_CASE("a shell reads a quoted word unchanged, whatever is in it") {
  const Words texts = {"plain", "two words", "it's", "$HOME `id` \\ \"x\" ; & |", "'", ""};
  for (const auto& text : texts) CHECK(read_by_shell(shell_word(text)) == text + "\n");
}

TEST_CASE("one clause explains why ssh ended") {
  const std::string path = "/opt/hvdrun";
  CHECK(explain_command_end("ssh", W_EXITCODE(255, 0), "ssh: connect to host a port 22: Connection refused", path) ==
        "cannot be reached by ssh: connect to host a port 22: Connection refused");
  CHECK(explain_command_end("ssh", W_EXITCODE(255, 0), "", path) == "cannot be reached by ssh: it printed no reason");
  CHECK(explain_command_end("ssh", W_EXITCODE(127, 0), "sh: 1: exec: hvdrun: not found", path) ==
        "has no hvdrun that can start, neither /opt/hvdrun nor one in its PATH: sh: 1: exec: hvdrun: not found");
  CHECK(explain_command_end("ssh", W_EXITCODE(1, 0), "no more disk", path) ==
        "has no agent: ssh exited with code 1 before it answered: no more disk");
  CHECK(explain_command_end("srun", W_EXITCODE(1, 0), "srun: error: Invalid node name specified", path) ==
        "has no agent: srun exited with code 1 before it answered: error: Invalid node name specified");
  CHECK(explain_command_end("ssh", W_EXITCODE(1, 0), "\x1b[2J\xc3\xa4\xc2\x9bz\t", path) ==
        "has no agent: ssh exited with code 1 before it answered: ?[2J\xc3\xa4?z?");
  CHECK(explain_command_end("ssh", 9, "", path) == "has no agent: ssh killed by signal 9 (Killed) before it answered");
}
