// Watches one host. Three things can end apart from each other: the link, the process that leads to the host, and the
// agent's word. Each has its flag, and the host is over once the link is closed and the process is reaped.
//
//   started -> introduced -> ordered -> done -> link closed, process reaped -> over
//      |           |            |
//      +-----------+------------+---> lost, with the best reason known ------> over
//
// The reason matters most to the user, so `lost` sometimes waits: if ssh fails before the agent's first word, only its
// exit code and its last line tell why, and they come after the link has closed.

#include "launcher/host_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "launcher/ssh.h"
#include "launcher/wait_status.h"
#include "runtime/base/shortage.h"

namespace rueda::core::launcher {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLeaves{10000};  // how long a guard or ssh may outlive its link
constexpr int kPingsPerSilence = 5;
constexpr milliseconds kFindsStore{10000};  // an agent is silent while it looks for a path to the store

}  // namespace

HostLink::HostLink(EventLoop& loop, HostShare share, milliseconds silence, Events events)
    : loop_(loop),
      share_(std::move(share)),
      silence_(silence),
      events_(std::move(events)),
      silence_timer_(loop),
      leave_timer_(loop) {}

Status HostLink::start(const std::vector<std::string>& command, const std::string& hvdrun) {
  hvdrun_ = hvdrun;
  if (!share_.here) command_ = command.front();
  auto agent = share_.here ? start_local_agent() : start_remote_agent(command);
  if (!agent.ok()) return agent.status();
  UniqueFd other_end(fcntl(agent.value().socket.get(), F_DUPFD_CLOEXEC, 0));
  if (!other_end.valid()) {
    return {Code::kSystem, fmt::format("cannot duplicate the socket of the agent of host {}: {}", share_.host.name,
                                       core::reason_of(errno))};
  }
  agent_ = std::move(agent).value();
  running_ = link_open_ = true;
  link_ = std::make_unique<MessageLink>(loop_, std::move(agent_.socket), std::move(other_end),
                                        MessageReader::Greeting::kMagicFirst,
                                        MessageLink::Events{[this](const Message& message) { receive(message); },
                                                            [this](const Status& why) { closed(why); }});
  if (agent_.errors.valid()) {
    errors_ = std::make_unique<FdWatch>(loop_, agent_.errors.get(), Interest::kRead);
    errors_->arm([this] { read_errors(); });
  }
  return {};
}

void HostLink::send(const Message& message) {
  if (message.type == MessageType::kStart || message.type == MessageType::kEnd) ordered_ = true;
  if (message.type == MessageType::kStart) starting_ = true;
  if (link_open_) link_->send(message);
}

void HostLink::grant() {
  if (owed_ == 0) return;
  send({MessageType::kTaken, -1, owed_, {}});
  owed_ = 0;
}

void HostLink::receive(const Message& message) {
  if (!link_open_) return;
  heard_ = SteadyClock::now();
  if (!introduction_) return meet(message);
  if (message.type == MessageType::kPong) return;
  starting_ = false;
  if (message.type == MessageType::kCutOff) return give_up(message.bytes);  // it already ends its ranks
  if (message.type == MessageType::kGuardGone) return lose_guard(message.bytes);
  if (message.type == MessageType::kDone && !ordered_) lose("has lost its agent, which left before hvdrun ended it");
  if (message.type == MessageType::kDone) done_ = true;
  events_.message(message);
}

// Calls `lost` at once and not in the next round: the agent's next messages report ranks that it ended itself, and must
// not be taken for the cause.
void HostLink::lose_guard(const std::string& why) {
  if (!std::exchange(lost_, true)) events_.lost(why);
}

void HostLink::meet(const Message& message) {
  if (message.type == MessageType::kHere) introduction_ = decode_introduction(message.bytes);
  if (!introduction_) return give_up("has an agent that sent no introduction");
  ping();
  if (!share_.here) watch_silence();
  events_.introduced();
}

// The ping tells the agent how long we may be silent. On this host that is for ever: our end closes the link, and a
// hvdrun that is only stopped (Ctrl-Z) must not lose its ranks.
void HostLink::ping() { send({MessageType::kPing, -1, share_.here ? 0 : silence_.count(), {}}); }

// A pong comes right after its ping, so the limit ends just after a look: the last look is then, not an interval later.
void HostLink::watch_silence() {
  if (silence_.count() == 0) return;
  const auto left = std::chrono::ceil<milliseconds>(heard_ + longest_silence() - SteadyClock::now());
  silence_timer_.start(std::clamp(left, milliseconds(0), silence_ / kPingsPerSilence), [this] {
    if (!link_open_) return;
    const milliseconds limit = longest_silence();
    if (SteadyClock::now() - heard_ >= limit) {
      return give_up(fmt::format("has been silent for {} s", std::chrono::duration<double>(limit).count()));
    }
    ping();
    watch_silence();
  });
}

milliseconds HostLink::longest_silence() const { return starting_ ? std::max(silence_, kFindsStore) : silence_; }

bool HostLink::heard_lately() const {
  return share_.here || silence_.count() == 0 || SteadyClock::now() - heard_ < silence_ * 2 / kPingsPerSilence;
}

void HostLink::closed(const Status& why) {
  link_open_ = false;
  silence_timer_.cancel();
  if (why.code() != Code::kPeerLost) unread_ = why.sentence();
  if (!introduction_ && !unread_.empty()) return give_up(explain());
  reap();
  leave_timer_.start(kLeaves, [this] {
    if (running_) kill(agent_.pid, SIGKILL);  // not reaped, so the number is still its own
    lose(explain());
  });
  // Before the introduction the end of ssh tells why, so `lost` waits for it. After it the reason is the agent's end.
  if (share_.here || introduction_) lose(explain());
  leave_when_over();
}

void HostLink::give_up(std::string why) {
  loop_.post([this] { leave_when_over(); });
  if (running_) kill(agent_.pid, SIGKILL);
  link_open_ = false;
  silence_timer_.cancel();
  lose(std::move(why));
}

void HostLink::reap() {
  if (!running_ || waitpid(agent_.pid, &wait_status_, WNOHANG) != agent_.pid) return;
  running_ = false;
  if (errors_) read_errors();
  leave_when_over();
}

// Posts the event, because this may run inside a call of the object that receives it.
void HostLink::lose(std::string why) {
  if (done_ || std::exchange(lost_, true)) return;
  loop_.post([this, why = std::move(why)] { events_.lost(why); });
}

std::string HostLink::explain() const {
  if (!introduction_ && !share_.here && unread_.empty()) {
    const std::string out = link_->ungreeted();  // `nologin` prints its reason on stdout, after sshd's line on stderr
    const bool both = !last_error_.empty() && !out.empty();
    const std::string said = both ? fmt::format("{}; {}", last_error_, out) : last_error_ + out;
    return explain_command_end(command_, wait_status_, said, hvdrun_);
  }
  std::string text = "has lost its agent";
  if (!unread_.empty()) text += fmt::format(": {}", unread_);
  if (!share_.here && !running_) text += fmt::format(" ({} {})", command_, describe_wait_status(wait_status_));
  return text;
}

void HostLink::leave_when_over() {
  if (link_open_ || running_ || over_) return;
  lose(explain());
  over_ = true;
  leave_timer_.cancel();
  loop_.post([this] { events_.over(); });
}

void HostLink::read_errors() {
  std::array<char, 4096> buffer;
  ssize_t got = 0;
  while ((got = read(agent_.errors.get(), buffer.data(), buffer.size())) > 0) {
    error_lines_.feed({buffer.data(), static_cast<size_t>(got)},
                      [this](const LinePiece& piece) { take_error_line(piece); });
  }
  if (got < 0 && running_) return errors_->arm([this] { read_errors(); });
  error_lines_.finish([this](const LinePiece& piece) { take_error_line(piece); });
}

// Lines before the introduction may be a login banner, so they are not shown; the last one says why ssh failed.
void HostLink::take_error_line(const LinePiece& piece) {
  std::string_view line = piece.text.substr(0, kMaxQuote);
  while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (line.empty()) return;
  last_error_ = line;
  if (introduction_) events_.said(line);
}

}  // namespace rueda::core::launcher
