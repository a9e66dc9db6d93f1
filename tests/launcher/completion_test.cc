// The bash completion script, run by a real bash.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "launcher/arguments.h"

using namespace rueda::core::launcher;

namespace {

// Returns what bash offers if Tab is pressed after `hvdrun before... word`.
std::vector<std::string> offers(const std::string& before, const std::string& word) {
  const std::string script = parse_arguments({"--completion", "bash"}).value().text;
  const std::string command =
      "bash --norc -c \"$(cat <<'END'\n" + script + "COMP_WORDS=(hvdrun " + before + " '" + word +
      "'); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _hvdrun; printf '%s\\n' \"${COMPREPLY[@]}\"\n" + "END\n)\"";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  REQUIRE(pipe);
  std::string text;
  for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get())) text.push_back(static_cast<char>(c));
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string line; stream >> line;) words.push_back(line);
  return words;
}

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

TEST_CASE("bash completes every flag, also short ones, and the values of flags with few") {
  const auto flags = offers("", "-");
  for (const char* flag : {"-n", "-np", "-H", "-hosts", "--compression", "--verbose", "-h"}) {
    INFO(flag);
    CHECK(has(flags, flag));
  }
  CHECK_FALSE(has(flags, "--agent"));
  CHECK(offers("--compression", "") == std::vector<std::string>{"none", "fp16", "bf16"});
  CHECK(offers("--compression", "f") == std::vector<std::string>{"fp16"});
  CHECK(offers("--log-level", "e") == std::vector<std::string>{"error"});
}
