// The loop of hvdrun and of its agents. Asio does the waiting; this file hides it from all other files, because its
// headers are slow to compile, and adds two promises. A callback that was cancelled or replaced never comes, even if
// Asio had already queued it: each state counts its arms or starts, and a callback with an old number is dropped. And a
// callback may destroy the object that called it, because the callback holds the state only weakly.

#include "launcher/event_loop.h"

#include <poll.h>
#include <sys/epoll.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <utility>

#include "runtime/base/unique_fd.h"

namespace rueda::core::launcher {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

/// How often a descriptor that got no epoll set is looked at.
constexpr std::chrono::milliseconds kBetweenLooks{50};

}  // namespace

struct EventLoop::State {
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
};

EventLoop::EventLoop() : state_(std::make_unique<State>()) {}
EventLoop::~EventLoop() = default;
void EventLoop::run() { state_->io.run(); }
void EventLoop::stop() { state_->io.stop(); }
void EventLoop::post(std::function<void()> callback) { asio::post(state_->io, std::move(callback)); }
asio::io_context& EventLoop::io() { return state_->io; }

// The descriptor goes into an epoll set of its own, and Asio waits for that set, which is readable as soon as the
// descriptor is ready. Asio sets O_NONBLOCK on each descriptor that it gets, and this way it gets only the set. A file
// cannot be in a set and never blocks, so its callback is due in the next round. If the kernel gives no set, a timer
// looks at the descriptor: late, but without a descriptor of its own.
struct FdWatch::State : std::enable_shared_from_this<FdWatch::State> {
  enum class How { kBySet, kAtOnce, kByLooks };
  State(asio::io_context& loop, int watched, Interest interest)
      : io(loop), fd(watched), reads(interest == Interest::kRead), set(loop), look_timer(loop), how(take_set()) {}
  How take_set();
  void wait();
  void look_in(std::chrono::milliseconds pause);
  void fire(uint64_t number);

  asio::io_context& io;
  const int fd;
  const bool reads;
  asio::posix::stream_descriptor set;
  asio::steady_timer look_timer;
  const How how;
  uint64_t armed = 0;  // number of the last arm; callbacks of earlier ones are stale
  std::function<void()> ready;
};

FdWatch::State::How FdWatch::State::take_set() {
  UniqueFd made(epoll_create1(EPOLL_CLOEXEC));
  if (!made.valid()) return How::kByLooks;
  epoll_event event{};
  event.events = reads ? EPOLLIN : EPOLLOUT;
  if (epoll_ctl(made.get(), EPOLL_CTL_ADD, fd, &event) != 0) return errno == EPERM ? How::kAtOnce : How::kByLooks;
  error_code refused;
  set.assign(made.get(), refused);
  if (refused) return How::kByLooks;
  made.release();
  return How::kBySet;
}

void FdWatch::State::fire(uint64_t number) {
  if (armed != number) return;
  const auto callback = std::exchange(ready, nullptr);
  callback();
}

void FdWatch::State::wait() {
  const auto on_ready = [weak = weak_from_this(), number = armed](const error_code& error) {
    const auto state = weak.lock();
    if (!error && state) state->fire(number);
  };
  if (how == How::kBySet) return set.async_wait(asio::posix::stream_descriptor::wait_read, on_ready);
  if (how == How::kAtOnce) return asio::post(io, [on_ready] { on_ready({}); });
  look_in(std::chrono::milliseconds(0));
}

void FdWatch::State::look_in(std::chrono::milliseconds pause) {
  look_timer.expires_after(pause);
  look_timer.async_wait([weak = weak_from_this(), number = armed](const error_code& error) {
    const auto state = weak.lock();
    if (error || !state || state->armed != number) return;
    pollfd entry{state->fd, static_cast<short>(state->reads ? POLLIN : POLLOUT), 0};
    if (::poll(&entry, 1, 0) > 0) return state->fire(number);
    state->look_in(kBetweenLooks);
  });
}

FdWatch::FdWatch(EventLoop& loop, int fd, Interest interest)
    : state_(std::make_shared<State>(loop.io(), fd, interest)) {}

FdWatch::~FdWatch() {
  if (state_) disarm();
}

void FdWatch::disarm() {
  ++state_->armed;
  state_->ready = nullptr;
  error_code ignored;
  if (state_->set.is_open()) state_->set.cancel(ignored);
  state_->look_timer.cancel();
}

void FdWatch::arm(std::function<void()> ready) {
  disarm();
  state_->ready = std::move(ready);
  state_->wait();
}

struct Timer::State {
  explicit State(asio::io_context& io) : timer(io) {}
  asio::steady_timer timer;
  uint64_t started = 0;
};

Timer::Timer(EventLoop& loop) : state_(std::make_shared<State>(loop.io())) {}
Timer::~Timer() { cancel(); }

void Timer::cancel() {
  ++state_->started;
  state_->timer.cancel();
}

void Timer::start(std::chrono::milliseconds delay, std::function<void()> fire) {
  ++state_->started;  // an earlier start that has fired but not run is stale now
  state_->timer.expires_after(delay);
  state_->timer.async_wait([weak = std::weak_ptr<State>(state_), started = state_->started,
                            fire = std::move(fire)](const error_code& error) {
    const auto state = weak.lock();
    if (!error && state && state->started == started) fire();
  });
}

struct SignalWatch::State : std::enable_shared_from_this<SignalWatch::State> {
  State(asio::io_context& io, std::function<void(int)> callback) : set(io), arrived(std::move(callback)) {}
  void wait() {
    set.async_wait([weak = weak_from_this()](const error_code& error, int signal) {
      const auto state = weak.lock();
      if (error || !state) return;
      state->wait();  // before the callback, which may destroy the watch
      state->arrived(signal);
    });
  }
  asio::signal_set set;
  std::function<void(int)> arrived;
};

SignalWatch::SignalWatch(EventLoop& loop, const std::vector<int>& signals, std::function<void(int)> arrived)
    : state_(std::make_shared<State>(loop.io(), std::move(arrived))) {
  for (const int signal : signals) state_->set.add(signal);
  state_->wait();
}

SignalWatch::~SignalWatch() = default;

}  // namespace rueda::core::launcher
