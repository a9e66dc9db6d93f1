// Finds data connections over which a host that is lost or cut off has stopped answering. Such a host closes nothing,
// so only the kernel's count of unacknowledged data shows it (TCP_INFO). A connection that owes us nothing is never
// silent.
#include "runtime/net/path_watch.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/shortage.h"
#include "runtime/net/socket_address.h"

namespace rueda::core {
PathState path_state(int fd) {
  tcp_info info{};
  socklen_t bytes = sizeof(info);
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return {};
  // Window probes count as data owed: they go to a peer whose window is closed, and an answer resets their count.
  return {info.tcpi_unacked != 0 || info.tcpi_probes != 0, std::chrono::milliseconds(info.tcpi_last_ack_recv)};
}

bool PathSilence::seen(const PathState& state, SteadyClock::time_point now, std::chrono::nanoseconds limit) {
  // The silence begins no earlier than the debt: an idle connection may have heard nothing for hours.
  if (!state.outstanding || answered_ == SteadyClock::time_point{}) answered_ = now;
  answered_ = std::max(answered_, now - state.since_heard);
  return now - answered_ >= limit;
}

uint64_t PathWatch::add(int rank, int fd) {
  UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) {
    log(LogLevel::kWarning,
        "the connection to rank {} is not watched ({}): only TCP would see the loss of its host, after 15 minutes",
        rank, reason_of(errno));
  }
  MutexLock lock(mutex_);
  paths_.emplace(++last_number_, Path{rank, std::move(copy), {}});
  return last_number_;
}

void PathWatch::remove(uint64_t number) {
  MutexLock lock(mutex_);
  paths_.erase(number);
}

void PathWatch::unreachable(int rank, SteadyClock::time_point since, std::string why) {
  MutexLock lock(mutex_);
  unreached_[rank] = {since, std::move(why)};
}

void PathWatch::reached(int rank) {
  MutexLock lock(mutex_);
  unreached_.erase(rank);
}

std::vector<SilentPath> PathWatch::silent(SteadyClock::time_point now, std::chrono::nanoseconds limit) {
  MutexLock lock(mutex_);
  // If this process itself was stopped (a debugger, a suspended machine), the peers' answers may wait in our own
  // kernel.
  const bool slept = now - last_look_ > limit / 2;
  last_look_ = now;
  std::vector<SilentPath> found;
  for (auto& [rank, unreached] : unreached_) {
    if (slept) unreached.since = now;
    if (now - unreached.since >= limit) found.push_back({rank, {}, {}, unreached.why});
  }
  for (auto& [number, path] : paths_) {
    if (slept) path.silence.start_over();
    if (!path.silence.seen(path_state(path.fd.get()), now, limit)) continue;
    const auto same = [&path = path](const SilentPath& known) { return known.rank == path.rank; };
    if (std::any_of(found.begin(), found.end(), same)) continue;
    found.push_back({path.rank, own_address(path.fd.get()), peer_address(path.fd.get()), {}});
  }
  return found;
}

}  // namespace rueda::core
