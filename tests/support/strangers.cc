// Connections that no rank makes, against every port of the job. The ports are found in /proc (a process's sockets
// joined with its table of listening ones), because a crowd from outside would not know them either.
#include "tests/support/strangers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <array>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "runtime/base/unique_fd.h"

namespace rueda::test {
namespace {

namespace fs = std::filesystem;
using core::UniqueFd;
using Clock = std::chrono::steady_clock;

/// More than may be pending at four ports together.
constexpr size_t kOpenAtOnce = 300;
constexpr size_t kLookForPortsEvery = 200;

std::set<std::string> sockets_of(const std::string& process) {
  std::set<std::string> inodes;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(process + "/fd", ignored)) {
    const std::string link = fs::read_symlink(entry, ignored).string();
    if (link.starts_with("socket:[")) inodes.insert(link.substr(8, link.size() - 9));
  }
  return inodes;
}

/// What a TLS client says first that knows no key.
std::string client_hello() {
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  SSL* const ssl = SSL_new(context);
  BIO* const said = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl, BIO_new(BIO_s_mem()), said);
  SSL_connect(ssl);  // stops when it waits for the answer
  std::string text(4096, '\0');
  const int bytes = BIO_read(said, text.data(), static_cast<int>(text.size()));
  text.resize(static_cast<size_t>(std::max(bytes, 0)));
  SSL_free(ssl);
  SSL_CTX_free(context);
  return text;
}

UniqueFd connect_to(uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return {};
  return fd;
}

void say(const UniqueFd& fd, const std::string& text) {
  static_cast<void>(::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

/// The next close sends a reset.
void make_abrupt(const UniqueFd& fd) {
  const linger now{1, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

}  // namespace

std::vector<uint16_t> listening_ports(pid_t pid) {
  const std::string process = "/proc/" + std::to_string(pid);
  const std::set<std::string> own = sockets_of(process);
  std::vector<uint16_t> ports;
  std::ifstream table(process + "/net/tcp");
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string word, local, state, inode;
    fields >> word >> local >> word >> state >> word >> word >> word >> word >> word >> inode;
    if (state != "0A" || own.count(inode) == 0) continue;
    ports.push_back(static_cast<uint16_t>(std::stoul(local.substr(local.find(':') + 1), nullptr, 16)));
  }
  return ports;
}

struct Strangers::State {
  struct Open {
    UniqueFd fd;
    bool slow;
  };

  explicit State(std::vector<pid_t> processes) : pids(std::move(processes)), thread([this] { run(); }) {}
  ~State() {
    {
      const std::lock_guard lock(mutex);
      over = true;
    }
    thread.join();
  }

  void run() {
    for (size_t number = 0;; ++number) {
      if (number % kLookForPortsEvery == 0) look_for_ports();
      UniqueFd fd = ports.empty() ? UniqueFd() : connect_to(ports[number % ports.size()]);
      const bool came = fd.valid();
      if (came) visit(std::move(fd), number / ports.size());
      const std::lock_guard lock(mutex);
      if (over) return;
      if (!came) continue;
      ++count;
      counted.notify_all();
    }
  }

  void look_for_ports() {
    ports.clear();
    for (const pid_t pid : pids) {
      for (const uint16_t port : listening_ports(pid)) ports.push_back(port);
    }
  }

  /// `way`: one of several kinds of strangers, in turn.
  void visit(UniqueFd fd, size_t way) {
    switch (way % 8) {
      case 0: return;
      case 1: return make_abrupt(fd);
      case 2: return keep(std::move(fd), "GET /metrics HTTP/1.1\r\nHost: rueda\r\n\r\n");
      case 3: return keep(std::move(fd), noise());
      case 4: return keep(std::move(fd), hello);  // to the store
      case 5: return keep(std::move(fd), "C" + hello);
      case 6: return keep(std::move(fd), "DRDH1" + std::string(30, '\0'));
      default: return keep(std::move(fd), "");
    }
  }

  std::string noise() {
    std::string text(1 + random() % 2000, '\0');
    for (char& byte : text) byte = static_cast<char>(random());
    return text;
  }

  /// Who says nothing at first says a byte a second.
  void keep(UniqueFd fd, const std::string& words) {
    say(fd, words);
    open.push_back({std::move(fd), words.empty()});
    if (open.size() > kOpenAtOnce) open.pop_front();
    if (Clock::now() < next_byte) return;
    next_byte = Clock::now() + std::chrono::seconds(1);
    for (const Open& one : open) {
      if (one.slow) say(one.fd, "D");
    }
  }

  const std::vector<pid_t> pids;
  const std::string hello = client_hello();
  std::vector<uint16_t> ports;
  std::deque<Open> open;
  std::mt19937 random{7};
  Clock::time_point next_byte;
  mutable std::mutex mutex;
  mutable std::condition_variable counted;
  size_t count = 0;   // under `mutex`
  bool over = false;  // the same
  std::thread thread;
};

Strangers::Strangers(std::vector<pid_t> pids) : state_(std::make_unique<State>(std::move(pids))) {}
Strangers::~Strangers() = default;

size_t Strangers::count() const {
  const std::lock_guard lock(state_->mutex);
  return state_->count;
}

bool Strangers::reach(size_t count, core::Deadline deadline) const {
  std::unique_lock lock(state_->mutex);
  return state_->counted.wait_until(lock, deadline.when(), [&] { return state_->count >= count; });
}

}  // namespace rueda::test
