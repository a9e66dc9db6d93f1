#pragma once
#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "runtime/base/unique_fd.h"

namespace rueda::test {

/// A child in new namespaces (`CLONE_NEW...` flags) that runs `setup`, which throws where it fails, and then only
/// waits, reaping whoever becomes its child. It dies with this program; whatever else is in its process namespace dies
/// with it. Returns its pid, as this program sees it, once `setup` is done. Throws std::runtime_error with the reason.
pid_t keep_namespaces(int flags, const std::function<void()>& setup);

/// What a finished command wrote, and how it ended.
struct CommandResult {
  int exit_code = -1;
  std::string out;
  std::string err;
};
/// Runs a command of PATH to its end, with an empty stdin.
CommandResult run_command(const std::vector<std::string>& words);

/// Starts a command of PATH; reads its stderr until `text` comes, or its end, which throws with what it wrote. Later
/// output of the command is dropped. Returns its pid, which the caller reaps.
pid_t start_until_it_says(const std::vector<std::string>& words, const std::string& text);

}  // namespace rueda::test
