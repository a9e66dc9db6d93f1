// Runs the peer, `rueda-perf-mpi`, under mpirun, and takes its one line of JSON. Most of this file is about the end: a
// signal to rueda-perf must end mpirun and every process that mpirun started, and leave no file behind.
//
//   signal ─▶ PassOn: SIGTERM to mpirun, once ─ 700 ms ─▶ SIGKILL
//          ─▶ NoOrphans: kill what mpirun left ─▶ Folder: remove its files ─▶ obey the signal ourselves
#include "benchmarks/rueda_perf/mpi_peer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <vector>

#include "launcher/descendants.h"
#include "runtime/base/deadline.h"
#include "runtime/base/unique_fd.h"

namespace rueda::perf {
namespace {

using Words = std::vector<std::string>;

std::string joined(const Words& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
  return line;
}

// Every complaint names the whole command, which can be run by hand.
[[noreturn]] void fail(const Words& words, const std::string& what) {
  throw std::runtime_error("the peer '" + joined(words) + "' " + what);
}

// As exec takes them; borrowed from `words`.
std::vector<char*> pointers(const Words& words) {
  std::vector<char*> all;
  for (const std::string& word : words) all.push_back(const_cast<char*>(word.c_str()));
  all.push_back(nullptr);
  return all;
}

// Our environment, with everything that Open MPI leaves on disk redirected below `folder`.
Words environment_with(const std::string& folder) {
  Words all;
  for (char** entry = environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
  for (const char* name : {"OMPI_MCA_btl_vader_backing_directory", "OMPI_MCA_orte_tmpdir_base", "TMPDIR"}) {
    std::erase_if(all, [name](const std::string& entry) { return entry.starts_with(std::string(name) + "="); });
    all.push_back(std::string(name) + "=" + folder);
  }
  return all;
}

// In a process group of its own: a signal to ours reaches mpirun through `PassOn`, once, for a second one would make it
// leave without tidying up.
pid_t spawn(const Words& words, const Words& environment, int output) {
  const std::vector<char*> argv = pointers(words);
  const std::vector<char*> variables = pointers(environment);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, 1);
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, argv[0], &actions, &attributes, argv.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) fail(words, std::string("cannot be started: ") + std::strerror(error));
  return pid;
}

// A folder for the peer's files, in memory if there is /dev/shm. Removed with everything in it at the end.
class Folder {
 public:
  Folder() {
    const std::string base = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path();
    path_ = base + "/rueda-perf-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) {
      throw std::runtime_error("no folder " + path_ + " for the peer: " + std::strerror(errno));
    }
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// While it lives, SIGINT, SIGTERM and SIGHUP end the peer instead of us; `arrived` says which one came.
class PassOn {
 public:
  PassOn() {
    to_ = 0;
    arrived_ = 0;
    struct sigaction action {};
    action.sa_handler = [](int signal) {
      const int before = errno;
      if (arrived_.exchange(signal) == 0) end_peer();
      errno = before;
    };
    for (size_t i = 0; i < std::size(kSignals); ++i) ::sigaction(kSignals[i], &action, &before_[i]);
  }
  ~PassOn() {
    for (size_t i = 0; i < std::size(kSignals); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  }
  PassOn(const PassOn&) = delete;
  PassOn& operator=(const PassOn&) = delete;
  static int arrived() { return arrived_; }
  // From now on `pid` is the peer; 0 if there is none. A signal that came before this call ends it as well.
  static void to(pid_t pid) {
    to_ = pid;
    if (arrived_ != 0) end_peer();
  }

 private:
  static void end_peer() {
    if (to_ > 0) ::kill(to_, SIGTERM);
  }
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  static inline std::atomic<pid_t> to_{0};
  static inline std::atomic<int> arrived_{0};
  struct sigaction before_[std::size(kSignals)]{};
};

// The pipe never blocks: a peer may be silent for minutes, and a signal has to be seen meanwhile.
void take_what_is_there(int fd, std::string& text) {
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(fd, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(got));
}

// The status of the peer `pid` once it has ended, with what came through the pipe `from` in `text`. After a signal it
// may tidy up for `kPatience`; then it is killed, for the patience that hvdrun has with us ends soon after, and then we
// tidy nothing.
int status_of(pid_t pid, int from, std::string& text) {
  constexpr int kLookMs = 100;
  constexpr auto kPatience = std::chrono::milliseconds(700);
  std::optional<core::Deadline> end;
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    pollfd output{from, POLLIN, 0};
    if (::poll(&output, 1, kLookMs) > 0) take_what_is_there(from, text);
    if (PassOn::arrived() == 0) continue;
    if (!end) end = core::Deadline::after(kPatience);
    if (end->passed()) ::kill(pid, SIGKILL);
  }
  PassOn::to(0);
  take_what_is_there(from, text);
  return status;
}

// Runs the program and gives what it printed to stdout; its errors go to ours.
std::string output_of(const Words& words, const std::string& folder) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail(words, std::string("gets no pipe: ") + std::strerror(errno));
  const core::UniqueFd from(ends[0]);
  const core::UniqueFd to(ends[1]);  // ours stays open, so that the pipe has an end only when the peer has
  ::fcntl(from.get(), F_SETFL, O_NONBLOCK);
  const pid_t pid = spawn(words, environment_with(folder), to.get());
  PassOn::to(pid);
  std::string text;
  const int status = status_of(pid, from.get(), text);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return text;
  fail(words, WIFEXITED(status) ? "exited with " + std::to_string(WEXITSTATUS(status))
                                : "was ended by signal " + std::to_string(WTERMSIG(status)));
}

// Ends what an mpirun that was ended in haste left of its ranks; one of them would make files in a folder that is gone.
// Children that this process had before stay.
class NoOrphans {
 public:
  NoOrphans() : before_(core::launcher::descendants_of(::getpid())) { ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }
  ~NoOrphans() {
    for (Processes left = found(); !left.empty(); left = found()) {
      for (const auto& process : left) core::launcher::signal_process(process, SIGKILL);
      for (const auto& process : left)
        ::waitpid(process.pid, nullptr, 0);  // its children come to us, and are found again
    }
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    ::prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
  }
  NoOrphans(const NoOrphans&) = delete;
  NoOrphans& operator=(const NoOrphans&) = delete;

 private:
  using Processes = std::vector<core::launcher::ProcessMark>;
  Processes found() const {
    Processes now = core::launcher::descendants_of(::getpid());
    std::erase_if(
        now, [this](const auto& each) { return std::find(before_.begin(), before_.end(), each) != before_.end(); });
    return now;
  }
  const Processes before_;
};

// As `output_of`; a signal that came meanwhile is obeyed once nothing of the peer is left.
std::string output_in_folder(const Words& words) {
  std::string text;
  std::exception_ptr failure;
  {
    const PassOn pass_on;
    const Folder folder;
    const NoOrphans no_orphans;
    try {
      text = output_of(words, folder.path());
    } catch (const std::runtime_error&) {
      failure = std::current_exception();
    }
  }
  // Our handlers are gone again, so the signal does what it does to any program.
  if (PassOn::arrived() != 0) ::raise(PassOn::arrived());
  if (failure) std::rethrow_exception(failure);
  return text;
}

}  // namespace

MpiPeer::MpiPeer(const Arguments& arguments) : arguments_(arguments) {
  std::error_code error;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  // Beside this program, so that both are of one build.
  program_ = (folder / "rueda-perf-mpi").string();
  if (!std::filesystem::exists(program_, error)) {
    throw std::runtime_error("--peer mpi needs " + program_ + ", which is built where an MPI is installed");
  }
}

Entry MpiPeer::run(size_t bytes, int ranks, int yield) {
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
                std::to_string(arguments_.entry_seconds)};
  if (arguments_.iterations > 0) tail.insert(tail.end(), {"--iters", std::to_string(arguments_.iterations)});
  if (arguments_.warm_up > 0) tail.insert(tail.end(), {"--warmup", std::to_string(arguments_.warm_up)});
  if (arguments_.buffers == Buffers::kCold) tail.push_back("--cold");
  words.insert(words.end(), tail.begin(), tail.end());
  const std::string text = output_in_folder(words);
  // MPI libraries print warnings in front; the result is what begins with a brace.
  const auto found = nlohmann::ordered_json::parse(text.substr(std::min(text.find('{'), text.size())), nullptr, false);
  if (!found.is_object()) fail(words, "printed no result but '" + text + "'");
  // Results are shown to others: the folder that the program lies in tells them nothing.
  std::replace(words.begin(), words.end(), program_, std::filesystem::path(program_).filename().string());
  description_ = {{"name", "mpi"}, {"library", found.at("library")}, {"command", joined(words)}};
  Entry entry;
  entry.collective = "allreduce";
  entry.bytes = bytes;
  entry.dtype = core::name_of(arguments_.dtype);
  entry.codec = "none";
  entry.algorithm = "mpi";
  entry.ranks = ranks;
  entry.time = {found.at("p50_us"), found.at("p99_us"), found.at("max_us")};
  entry.before.line_ns = found.at("line_ns").at(0);
  entry.after.line_ns = found.at("line_ns").at(1);
  entry.correct = found.at("correct");
  entry.iterations = found.at("iterations");
  entry.cold = arguments_.buffers == Buffers::kCold;
  entry.set = arguments_.set;
  entry.flags = "mpi_yield_when_idle=" + std::to_string(yield);
  return entry;
}

// With fewer cores than ranks yielding is faster, else spinning: the better of both is MPI at its best.
Entry MpiPeer::measure(size_t bytes, int ranks) {
  Entry spinning = run(bytes, ranks, 0);
  auto description = std::move(description_);
  Entry yielding = run(bytes, ranks, 1);
  if (yielding.time.p50 < spinning.time.p50) return yielding;
  description_ = std::move(description);
  return spinning;
}

}  // namespace rueda::perf
