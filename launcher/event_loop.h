#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

namespace boost::asio {
class io_context;
}

namespace rueda::core::launcher {

/// The one event loop of a launcher process, built on Asio. The loop and its watches and timers belong to the thread
/// that runs it, except `post`, which any thread may call. Callbacks come from `run`, never from inside the call that
/// asks for them. Outlives its watches and timers.
class EventLoop {
 public:
  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  /// Runs callbacks until `stop`.
  void run();
  void stop();
  /// Calls back in the next round of the loop. Any thread may call it.
  void post(std::function<void()> callback);
  boost::asio::io_context& io();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

enum class Interest { kRead, kWrite };

/// Calls back once per `arm` when a descriptor is ready. Borrows the descriptor and changes none of its flags, because
/// a shell may share standard input and output and would suffer from O_NONBLOCK. Works for files too, which are always
/// ready. Works in a process that has no descriptor left: it then notices up to 50 ms late that a descriptor is ready.
class FdWatch {
 public:
  FdWatch(EventLoop& loop, int fd, Interest interest);
  /// Cancels a callback that has not come. The callback may destroy its own watch.
  ~FdWatch();
  FdWatch(FdWatch&&) noexcept = default;
  FdWatch(const FdWatch&) = delete;
  FdWatch& operator=(const FdWatch&) = delete;
  FdWatch& operator=(FdWatch&&) = delete;

  /// Replaces an earlier callback that has not come yet.
  void arm(std::function<void()> ready);
  void disarm();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Calls back once after a delay. Destroying it cancels. The callback may destroy or restart its own timer.
class Timer {
 public:
  explicit Timer(EventLoop& loop);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  /// Replaces an earlier start that has not fired.
  void start(std::chrono::milliseconds delay, std::function<void()> fire);
  void cancel();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Calls back from the loop with the number of each signal of a list that arrives. Every watch of a signal hears of it.
/// Signal handlers belong to the process: it has one loop that watches them.
class SignalWatch {
 public:
  SignalWatch(EventLoop& loop, const std::vector<int>& signals, std::function<void(int)> arrived);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace rueda::core::launcher
