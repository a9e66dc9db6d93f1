#include "benchmarks/rueda_perf/mpi_peer.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "runtime/base/unique_fd.h"

namespace rueda::perf {
namespace {

using Words = std::vector<std::string>;

std::string joined(const Words& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
  return line;
}

[[noreturn]] void fail(const Words& words, const std::string& what) {
  throw std::runtime_error("the peer '" + joined(words) + "' " + what);
}

pid_t spawn(const Words& words, int output) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, 1);
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) fail(words, std::string("cannot be started: ") + std::strerror(error));
  return pid;
}

std::string read_to_end(int fd) {
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer, static_cast<size_t>(got));
  }
}

// What the program printed to stdout; its errors go to ours.
std::string output_of(const Words& words) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail(words, std::string("gets no pipe: ") + std::strerror(errno));
  const core::UniqueFd from(ends[0]);
  core::UniqueFd to(ends[1]);
  const pid_t pid = spawn(words, to.get());
  to.reset();
  std::string text = read_to_end(from.get());
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return text;
  fail(words, WIFEXITED(status) ? "exited with " + std::to_string(WEXITSTATUS(status))
                                : "was ended by signal " + std::to_string(WTERMSIG(status)));
}

}  // namespace

MpiPeer::MpiPeer(const Arguments& arguments) : arguments_(arguments) {
  std::error_code error;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  program_ = (folder / "rueda-perf-mpi").string();
  if (!std::filesystem::exists(program_, error)) {
    throw std::runtime_error("--peer mpi needs " + program_ + ", which is built where an MPI is installed");
  }
}

Row MpiPeer::run(size_t bytes, int ranks, int yield) {
  Words words = {"mpirun", "--allow-run-as-root", "--oversubscribe",     "--timeout", "600",
                 "--mca",  "mpi_yield_when_idle", std::to_string(yield), "-np",       std::to_string(ranks)};
  Words tail = {program_,
                "--bytes",
                std::to_string(bytes),
                "--dtype",
                core::name_of(arguments_.dtype),
                "--op",
                core::name_of(arguments_.op),
                "--seconds",
                std::to_string(arguments_.row_seconds)};
  if (arguments_.iterations > 0) tail.insert(tail.end(), {"--iters", std::to_string(arguments_.iterations)});
  if (arguments_.warm_up > 0) tail.insert(tail.end(), {"--warmup", std::to_string(arguments_.warm_up)});
  if (arguments_.buffers == Buffers::kCold) tail.push_back("--cold");
  words.insert(words.end(), tail.begin(), tail.end());
  const std::string text = output_of(words);
  const auto found = nlohmann::json::parse(text.substr(std::min(text.find('{'), text.size())), nullptr, false);
  if (!found.is_object()) fail(words, "printed no result but '" + text + "'");
  description_ = {{"name", "mpi"}, {"library", found.at("library")}, {"command", joined(words)}};
  Row row;
  row.collective = "allreduce";
  row.bytes = bytes;
  row.dtype = core::name_of(arguments_.dtype);
  row.codec = "none";
  row.algorithm = "mpi";
  row.ranks = ranks;
  row.time = {found.at("p50_us"), found.at("p99_us"), found.at("max_us")};
  row.before.line_ns = found.at("line_ns").at(0);
  row.after.line_ns = found.at("line_ns").at(1);
  row.correct = found.at("correct");
  row.iterations = found.at("iterations");
  row.cold = arguments_.buffers == Buffers::kCold;
  row.set = arguments_.set;
  row.flags = "mpi_yield_when_idle=" + std::to_string(yield);
  return row;
}

Row MpiPeer::measure(size_t bytes, int ranks) {
  const Row spinning = run(bytes, ranks, 0);
  const Row yielding = run(bytes, ranks, 1);
  return spinning.time.p50 <= yielding.time.p50 ? spinning : yielding;
}

}  // namespace rueda::perf
