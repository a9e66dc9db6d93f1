#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

namespace boost::asio {
class io_context;
}

namespace rueda::core::launcher {

/// The one loop of a launcher process (Asio inside). It and all that hangs on it belong to the thread that runs it;
/// callbacks come from `run`, never from inside the call that asks for them. Outlives what hangs on it.
class EventLoop {
 public:
  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  /// Runs callbacks until `stop`.
  void run();
  void stop();
  /// Calls back with the next round.
  void post(std::function<void()> callback);
  boost::asio::io_context& io();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

enum class Interest { kRead, kWrite };

/// Tells once per `arm` when a descriptor is ready. Borrows the descriptor, and changes none of its flags: standard
/// input and output may be shared with a shell, where O_NONBLOCK would hurt others. Files, which are always ready, work
/// too.
class FdWatch {
 public:
  FdWatch(EventLoop& loop, int fd, Interest interest);
  /// Cancels. The callback may destroy its own watch.
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

/// Calls back once, later. Destroying cancels; the callback may destroy or restart its own timer.
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

/// Calls back with the number of every signal of a list, from the loop. The handlers are the process's: one per process
/// and signal.
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
