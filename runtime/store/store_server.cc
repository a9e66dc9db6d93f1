// The table, its desk and its listener on one thread of their own. This process's own calls run there too: each posts a
// task and waits for its result, so the table needs no lock.
#include "runtime/store/store_server.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <future>
#include <map>
#include <string>
#include <thread>

#include "runtime/base/shortage.h"
#include "runtime/base/thread.h"
#include "runtime/net/loop_wait.h"
#include "runtime/store/store_desk.h"

namespace rueda::core {

namespace asio = boost::asio;

namespace {
/// Between two looks at whether the server can let anybody in, while it waits for a value.
constexpr std::chrono::milliseconds kBetweenFaults{250};
}  // namespace

/// Everything but the port belongs to the server's thread; others post to `io`.
struct StoreServer::State {
  explicit State(StoreWaits waits) : desk(io, table, waits) {}
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard{io.get_executor()};
  KeyTable table;
  std::multimap<std::string, uint64_t, std::less<>> watches;  // this process's: their waiters, by key
  TableDesk desk;
  std::unique_ptr<StoreListener> listener;
  uint16_t port = 0;
  std::thread thread;

  enum class Times { kOnce, kAlways };
  /// A waiter is called once, so one that is to be called again registers the next one.
  void watch(const std::string& key, Times times, const std::function<void()>& call) {
    const auto entry = watches.emplace(key, 0);
    entry->second = table.wait(key, [this, key, times, call, entry](const std::string&) {
      watches.erase(entry);
      call();
      if (times == Times::kAlways) watch(key, times, call);
    });
  }

  template <typename Belongs>
  void forget(std::string_view first, Belongs belongs) {
    auto at = watches.lower_bound(first);
    while (at != watches.end() && belongs(at->first)) {
      table.cancel(at->second);
      at = watches.erase(at);
    }
  }

  /// Runs `work` on the server's thread and returns what it returns.
  template <typename Work>
  auto on_thread(Work work) {
    std::packaged_task<std::invoke_result_t<Work>()> task(std::move(work));
    auto result = task.get_future();
    asio::post(io, std::move(task));
    return result.get();
  }
};

StoreServer::StoreServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<StoreServer>> StoreServer::start(const StoreServerOptions& options) try {
  auto state = std::make_unique<State>(options.waits);
  auto listener = StoreListener::start(state->io, state->desk, options);
  if (!listener.ok()) return listener.status();
  state->listener = std::move(listener).value();
  state->port = state->listener->port();
  RUEDA_RETURN_IF_ERROR(
      start_thread(state->thread, "of the store", [raw = state.get()] { run_loop(raw->io, "store"); }));
  return std::unique_ptr<StoreServer>(new StoreServer(std::move(state)));
} catch (const std::exception& error) {
  return Status(Code::kSystem, "store: cannot start the server: " + reason_of(error));
}

StoreServer::~StoreServer() {
  stop_loop(state_->io, [state = state_.get()] { state->listener.reset(); });
  state_->thread.join();
}

uint16_t StoreServer::port() const { return state_->port; }

Status StoreServer::set(std::string_view key, std::string_view value) {
  return state_->on_thread([this, key, value] { return state_->table.set(key, value); });
}

Result<int64_t> StoreServer::add(std::string_view key, int64_t amount) {
  return state_->on_thread([this, key, amount] { return state_->table.add(key, amount); });
}

Status StoreServer::remove(std::string_view key) {
  state_->on_thread([this, key] { state_->table.remove(key); });
  return {};
}

void StoreServer::remove_all(std::string_view prefix) {
  state_->on_thread([this, prefix] { state_->table.remove_all(prefix); });
}

Result<std::string> StoreServer::get(std::string_view key, Deadline deadline) {
  auto arrived = std::make_shared<std::promise<std::string>>();
  auto value = arrived->get_future();
  const uint64_t waiter = state_->on_thread([this, key, arrived]() -> uint64_t {
    const std::string* held = state_->table.find(key);
    if (held == nullptr) return state_->table.wait(key, [arrived](const std::string& set) { arrived->set_value(set); });
    arrived->set_value(*held);
    return 0;
  });
  // In slices: a server that can let nobody in waits in vain for what others would set.
  Status fault;
  while (fault.ok()) {
    const Deadline slice = deadline.earlier(Deadline::after(kBetweenFaults));
    if (value.wait_until(slice.when()) == std::future_status::ready) return value.get();
    if (deadline.passed()) break;
    fault = state_->on_thread([this] { return state_->listener->fault(); });
  }
  state_->on_thread([this, waiter] { state_->table.cancel(waiter); });
  // The value may have come between the end of the wait and the cancel.
  if (value.wait_for(std::chrono::seconds(0)) == std::future_status::ready) return value.get();
  return fault.ok() ? value_missing(key) : fault;
}

std::string StoreServer::turned_away() {
  return state_->on_thread([this] { return state_->listener->turned_away(); });
}

void StoreServer::when_set(std::string_view key, std::function<void()> call) {
  state_->on_thread([this, key, call = std::move(call)] {
    if (state_->table.find(key) != nullptr) return call();
    state_->watch(std::string(key), State::Times::kOnce, call);
  });
}

void StoreServer::each_time(std::string_view key, std::function<void()> call) {
  state_->on_thread(
      [this, key, call = std::move(call)] { state_->watch(std::string(key), State::Times::kAlways, call); });
}

void StoreServer::forget(std::string_view key) {
  state_->on_thread([this, key] { state_->forget(key, [key](std::string_view other) { return other == key; }); });
}

void StoreServer::forget_all(std::string_view prefix) {
  state_->on_thread(
      [this, prefix] { state_->forget(prefix, [prefix](std::string_view key) { return key.starts_with(prefix); }); });
}

size_t StoreServer::waiting() const {
  return state_->on_thread([this] { return state_->table.waiting(); });
}

}  // namespace rueda::core
