// The loop of hvdrun and of its agents. Asio does the waiting; this file hides it from all other files, because its
// headers are slow to compile, and adds two promises. A callback that was cancelled or replaced never comes, even if
// Asio had already queued it: each state counts its arms or starts, and a callback with an old number is dropped. And a
// callback may destroy the object that called it, because the callback holds the state only weakly.

#include "launcher/event_loop.h"

#include <sys/epoll.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>

namespace rueda::core::launcher {

namespace asio = boost::asio;
using boost::system::error_code;

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
// descriptor is ready. Asio sets O_NONBLOCK on each descriptor that it gets, and this way it gets only the set.
struct FdWatch::State {
  explicit State(asio::io_context& loop) : io(loop), set(loop) {}
  asio::io_context& io;
  asio::posix::stream_descriptor set;
  bool always_ready = false;
  uint64_t armed = 0;  // number of the last arm; callbacks of earlier ones are stale
  std::function<void()> ready;
};

FdWatch::FdWatch(EventLoop& loop, int fd, Interest interest) : state_(std::make_shared<State>(loop.io())) {
  const int set = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = interest == Interest::kRead ? EPOLLIN : EPOLLOUT;
  state_->always_ready = set < 0 || epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) != 0;  // EPERM if it is a file
  if (set >= 0) state_->set.assign(set);
}

FdWatch::~FdWatch() {
  if (state_) disarm();
}

void FdWatch::disarm() {
  ++state_->armed;
  state_->ready = nullptr;
  error_code ignored;
  if (state_->set.is_open()) state_->set.cancel(ignored);
}

void FdWatch::arm(std::function<void()> ready) {
  disarm();
  state_->ready = std::move(ready);
  auto fire = [weak = std::weak_ptr<State>(state_), armed = state_->armed](const error_code& error) {
    const auto state = weak.lock();
    if (error || !state || state->armed != armed) return;
    const auto callback = std::exchange(state->ready, nullptr);
    callback();
  };
  // A file cannot be in an epoll set and never blocks, so its callback is due in the next round.
  if (state_->always_ready) {
    asio::post(state_->io, [fire] { fire({}); });
  } else {
    state_->set.async_wait(asio::posix::stream_descriptor::wait_read, fire);
  }
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
