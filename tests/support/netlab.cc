// Builds hosts out of namespaces, in this order: a keeper process for each host, the cables between them, keys that
// every host knows, addresses, and last the sshd of each, which needs all of that.
#include "tests/support/netlab.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "tests/support/namespaces.h"
#include "tests/support/temporary_folder.h"

namespace rueda::test {
namespace {

namespace fs = std::filesystem;

constexpr int kSkipped = 77;
constexpr int kHostFlags = CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWNS | CLONE_NEWPID;
constexpr int kSwitchFlags = CLONE_NEWNET | CLONE_NEWPID;

constexpr const char* kServerConfig = R"(HostKey /etc/ssh/host_key
AuthorizedKeysFile /etc/ssh/authorized_keys
StrictModes no
UsePAM no
UseDNS no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 100
PidFile none
)";
constexpr const char* kClientConfig = R"(IdentityFile /etc/ssh/login_key
IdentitiesOnly yes
IdentityAgent none
)";

void must(int rc, const char* what) {
  if (rc != 0) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  if (!file.flush()) throw std::runtime_error("writing " + path);
}

// On the host, before anything else runs there.
void furnish(const std::string& name, const std::string& hosts) {
  must(sethostname(name.data(), name.size()), "sethostname");
  must(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "private mounts");
  must(mount("proc", "/proc", "proc", 0, nullptr), "mounting /proc");
  for (const char* folder : {"/run", "/etc/ssh"}) must(mount("none", folder, "tmpfs", 0, "mode=755"), folder);
  if (fs::exists("/root/.ssh")) must(mount("none", "/root/.ssh", "tmpfs", 0, "mode=700"), "/root/.ssh");
  must(mkdir("/run/sshd", 0755), "/run/sshd");
  write_text("/run/hosts", hosts);
  must(mount("/run/hosts", "/etc/hosts", nullptr, MS_BIND, nullptr), "mounting /etc/hosts");
  write_text("/run/resolv.conf", "");
  must(mount("/run/resolv.conf", "/etc/resolv.conf", nullptr, MS_BIND, nullptr), "mounting /etc/resolv.conf");
  write_text("/etc/ssh/sshd_config", kServerConfig);
  write_text("/etc/ssh/ssh_config", kClientConfig);
}

std::string run_or_throw(const std::vector<std::string>& words) {
  auto result = run_command(words);
  if (result.exit_code == 0) return std::move(result.out);
  std::string line;
  for (const auto& word : words) line += word + " ";
  throw std::runtime_error(line + "exited with code " + std::to_string(result.exit_code) + ": " + result.err);
}

// In the network of a process, and in nothing else of it.
std::string run_in_network(pid_t keeper, const std::string& line) {
  return run_or_throw({"nsenter", "-t", std::to_string(keeper), "-n", "sh", "-ec", line});
}

std::string place(const std::string& file, pid_t keeper) { return "/proc/" + std::to_string(keeper) + "/root" + file; }

// The bridge's end of a host's cable.
std::string port_name(int host, int network) { return "port" + std::to_string(network) + "." + std::to_string(host); }

// Has all that leaves a network device be lost: no frame fits into the bucket.
std::string lose_all_on(const std::string& device) {
  return "tc qdisc replace dev " + device + " root tbf rate 8bit burst 10 latency 1ms";
}

std::string process_namespace(const std::string& pid) {
  std::error_code gone;
  return fs::read_symlink("/proc/" + pid + "/ns/pid", gone).string();
}

}  // namespace

struct NetLab::State {
  Options options;
  pid_t bridge = -1;
  std::vector<pid_t> keepers;
  std::vector<pid_t> servers;  // the commands that run sshd

  ~State() {
    for (const pid_t keeper : keepers) kill(keeper, SIGKILL);
    if (bridge > 0) kill(bridge, SIGKILL);
    for (const auto* pids : {&keepers, &servers}) {
      for (const pid_t pid : *pids) waitpid(pid, nullptr, 0);
    }
    if (bridge > 0) waitpid(bridge, nullptr, 0);
  }

  std::string hosts_file() const;
  void connect(int network);
  void address(int host);
  void exchange_keys();
};

std::string NetLab::State::hosts_file() const {
  std::string text = "127.0.0.1 localhost\n::1 localhost\n";
  for (int host = 0; host < options.hosts; ++host) {
    text += NetLab::address(host) + " " + name(host) + "\n" + address6(host) + " " + name(host) + "-v6\n";
  }
  return text;
}

void NetLab::State::connect(int network) {
  const std::string number = std::to_string(network), card = "eth" + number;
  if (options.hosts == 2) {
    run_in_network(keepers[0],
                   "ip link add " + card + " type veth peer name " + card + " netns " + std::to_string(keepers[1]));
    return;
  }
  run_in_network(bridge, "ip link add br" + number + " type bridge; ip link set br" + number + " up");
  for (size_t host = 0; host < keepers.size(); ++host) {
    const std::string port = port_name(static_cast<int>(host), network);
    run_in_network(bridge, "ip link add " + port + " type veth peer name " + card + " netns " +
                               std::to_string(keepers[host]) + "; ip link set " + port + " master br" + number + " up");
  }
}

void NetLab::State::address(int host) {
  std::string line = "ip link set lo up; ";
  for (int network = 0; network < options.networks; ++network) {
    const std::string card = "eth" + std::to_string(network);
    line += "ip addr add " + NetLab::address(host, network) + "/24 dev " + card + "; ip addr add " +
            NetLab::address6(host, network) + "/64 dev " + card + " nodad; ip link set " + card + " up; ";
    if (!options.rate.empty())
      line += "tc qdisc add dev " + card + " root tbf rate " + options.rate + " burst 256kb latency 50ms; ";
  }
  run_in_network(keepers[static_cast<size_t>(host)], line);
}

void NetLab::State::exchange_keys() {
  std::string known;
  for (int host = 0; host < options.hosts; ++host) {
    const std::string file = place("/etc/ssh/host_key", keepers[static_cast<size_t>(host)]);
    run_or_throw({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", file});
    std::string names = name(host) + "," + name(host) + "-v6";
    for (int network = 0; network < options.networks; ++network)
      names += "," + NetLab::address(host, network) + "," + address6(host, network);
    known += names + " " + text_of(file + ".pub");
  }
  const std::string login = place("/etc/ssh/login_key", keepers[0]);
  run_or_throw({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", login});
  const std::string secret = text_of(login), open = text_of(login + ".pub");
  for (const pid_t keeper : keepers) {
    write_text(place("/etc/ssh/login_key", keeper), secret);
    must(chmod(place("/etc/ssh/login_key", keeper).c_str(), 0600), "login_key");
    write_text(place("/etc/ssh/authorized_keys", keeper), open);
    write_text(place("/etc/ssh/ssh_known_hosts", keeper), known);
  }
}

NetLab::NetLab(const Options& options) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.options = options;
  const std::string hosts = state.hosts_file();
  for (int host = 0; host < options.hosts; ++host)
    state.keepers.push_back(keep_namespaces(kHostFlags, [&] { furnish(name(host), hosts); }));
  if (options.hosts > 2) state.bridge = keep_namespaces(kSwitchFlags, [] {});
  for (int network = 0; network < options.networks; ++network) state.connect(network);
  state.exchange_keys();
  for (int host = 0; host < options.hosts; ++host) {
    state.address(host);
    auto words = on(host);
    for (const char* word : {"/usr/sbin/sshd", "-D", "-e"}) words.emplace_back(word);
    state.servers.push_back(start_until_it_says(words, "Server listening on ::"));
  }
}

NetLab::~NetLab() = default;

std::string NetLab::why_not() {
  if (geteuid() != 0) return "making hosts needs root";
  for (const char* program : {"ip", "tc", "nsenter", "ssh", "ssh-keygen", "/usr/sbin/sshd"}) {
    const auto found = run_command({"sh", "-c", std::string("command -v ") + program});
    if (found.exit_code != 0) return std::string("making hosts needs ") + program;
  }
  try {
    const pid_t keeper = keep_namespaces(kHostFlags, [] { furnish("trial", ""); });
    std::string reason;
    try {
      run_in_network(keeper, "ip link add trial type veth peer name other");
    } catch (const std::exception& error) {
      reason = error.what();
    }
    kill(keeper, SIGKILL);
    waitpid(keeper, nullptr, 0);
    return reason;
  } catch (const std::exception& error) {
    return error.what();
  }
}

void NetLab::skip_without() {
  const std::string reason = why_not();
  if (reason.empty()) return;
  std::printf("skipped: %s\n", reason.c_str());
  std::exit(kSkipped);
}

std::string NetLab::name(int host) { return "node" + std::to_string(host + 1); }
std::string NetLab::address(int host, int network) {
  return "10.77." + std::to_string(network + 1) + "." + std::to_string(host + 1);
}
std::string NetLab::address6(int host, int network) {
  return "fd77:" + std::to_string(network + 1) + "::" + std::to_string(host + 1);
}

std::vector<std::string> NetLab::on(int host) const {
  const std::string keeper = std::to_string(state_->keepers.at(static_cast<size_t>(host)));
  return {"nsenter", "-t", keeper, "-n", "-u", "-m", "-p", "--"};
}

std::string NetLab::run(int host, const std::vector<std::string>& words) const {
  auto all = on(host);
  all.insert(all.end(), words.begin(), words.end());
  return run_or_throw(all);
}

void NetLab::write_file(int host, const std::string& path, const std::string& text) const {
  write_text(place(path, state_->keepers.at(static_cast<size_t>(host))), text);
}

void NetLab::unplug(int host, int network) const {
  run_in_network(state_->bridge, "ip link set " + port_name(host, network) + " down");
}

void NetLab::mute(int host, int network) const {
  run_in_network(state_->keepers.at(static_cast<size_t>(host)), lose_all_on("eth" + std::to_string(network)));
}

void NetLab::deafen(int host, int network) const {
  run_in_network(state_->bridge, lose_all_on(port_name(host, network)));
}

void NetLab::cut(int host, int network) const {
  run_in_network(state_->keepers.at(static_cast<size_t>(host)), "ip link set eth" + std::to_string(network) + " down");
}

void NetLab::kill_host(int host) { kill(state_->keepers.at(static_cast<size_t>(host)), SIGKILL); }

std::vector<LabProcess> NetLab::processes(int host) const {
  const auto at = static_cast<size_t>(host);
  const std::string home = process_namespace(std::to_string(state_->keepers.at(at)));
  std::vector<LabProcess> found;
  if (home.empty()) return found;  // the host is no more
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string pid = entry.path().filename();
    if (pid.find_first_not_of("0123456789") != std::string::npos || process_namespace(pid) != home) continue;
    const auto number = static_cast<pid_t>(std::stol(pid));
    std::string name = text_of("/proc/" + pid + "/comm");
    if (!name.empty()) name.pop_back();
    if (number == state_->keepers[at] || name == "sshd") continue;
    found.push_back({number, name});
  }
  return found;
}

pid_t NetLab::process_named(int host, const std::string& name) const {
  for (const auto& process : processes(host)) {
    if (process.name == name) return process.pid;
  }
  return -1;
}

}  // namespace rueda::test
