// A store listener whose desk is a connection to the real store:
//
//   clients ──▶ StoreListener ──▶ RelayDesk ──▶ StorePipe ──▶ the server       all on the relay's one thread
//
// The pipe numbers the requests of all clients for its one connection and brings each answer back to its asker.
#include "runtime/store/store_relay.h"

#include <exception>
#include <thread>
#include <utility>

#include "runtime/base/shortage.h"
#include "runtime/base/thread.h"
#include "runtime/net/loop_wait.h"
#include "runtime/store/store_connection.h"
#include "runtime/store/store_listener.h"

namespace rueda::core {
namespace {

/// Passes requests to the server. Once the connection is broken, its answers name the server that is lost.
class RelayDesk : public StoreDesk {
 public:
  RelayDesk(StorePipe& server, std::string name) : server_(server), name_(std::move(name)) {}
  uint64_t ask(const StoreRequest& request, Answer answer) override {
    return server_.ask(request, [this, answer = std::move(answer)](StoreReply reply) {
      if (const Status& broken = server_.broken(); !broken.ok()) reply.status = named(broken);
      answer(std::move(reply));
    });
  }
  void cancel(uint64_t number) override { server_.cancel(number); }

 private:
  Status named(const Status& broken) const noexcept try {
    return Status(Code::kSystem, name_ + ": " + broken.sentence());
  } catch (const std::exception& error) {
    return failure_of(error);
  }

  StorePipe& server_;
  const std::string name_;
};

}  // namespace

/// Everything but the port belongs to the relay's thread.
struct StoreRelay::State {
  State(std::unique_ptr<StoreConnection> opened, std::string name)
      : server(std::move(opened)), desk(server->pipe(), std::move(name)) {}
  std::unique_ptr<StoreConnection> server;  ///< has the loop that everything here runs in
  RelayDesk desk;
  std::unique_ptr<StoreListener> listener;
  uint16_t port = 0;
  std::thread thread;
};

StoreRelay::StoreRelay(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<StoreRelay>> StoreRelay::start(const StoreLocation& where,
                                                      const std::vector<std::string>& addresses, std::string whose,
                                                      Deadline deadline) try {
  auto server = StoreConnection::open(where, deadline);
  if (!server.ok()) return server.status();
  const std::string name = std::move(whose) + " has lost the store at " + where.host + ":" + std::to_string(where.port);
  auto state = std::make_unique<State>(std::move(server).value(), name);
  StoreListenOptions options;
  options.addresses = addresses;
  options.job = where.job;
  options.key = where.key;
  auto listener = StoreListener::start(state->server->io(), state->desk, options);
  if (!listener.ok()) return listener.status();
  state->listener = std::move(listener).value();
  state->port = state->listener->port();
  RUEDA_RETURN_IF_ERROR(
      start_thread(state->thread, "of a store relay", [raw = state.get()] { run_loop(raw->server->io(), "store"); }));
  return std::unique_ptr<StoreRelay>(new StoreRelay(std::move(state)));
} catch (const std::exception& error) {
  return Status(Code::kSystem, "store: cannot start a relay: " + reason_of(error));
}

StoreRelay::~StoreRelay() {
  stop_loop(state_->server->io(), [state = state_.get()] { state->listener.reset(); });
  state_->thread.join();
}

uint16_t StoreRelay::port() const { return state_->port; }

}  // namespace rueda::core
