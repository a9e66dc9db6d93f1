// The functions of rueda.h about sessions.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bindings/c/copy_in.h"
#include "bindings/c/last_error.h"
#include "bindings/c/session.h"
#include "runtime/engine/completer.h"

namespace rueda::core {
namespace {

/// Sessions of this process, so that a process that exits without rueda_shutdown still says goodbye.
struct Live {
  Mutex mutex;
  std::vector<rueda_session*> sessions RUEDA_GUARDED_BY(mutex);
  std::vector<rueda_session*> ended RUEDA_GUARDED_BY(mutex);  ///< shells, kept so that late calls find them
};

Live& live() {
  static auto* sessions = new Live;
  return *sessions;
}

/// A process that exits with 0 says goodbye by itself. One that exits otherwise has failed: it ends here, without a
/// goodbye, so that it is dead before any rank can miss it and the job's first failure is the one that came first.
void close_at_exit(int status, void*) {
  std::vector<rueda_session*> sessions;
  {
    MutexLock lock(live().mutex);
    sessions.swap(live().sessions);
  }
  std::erase_if(sessions, [](const rueda_session* session) { return !engine_of(session).ok(); });
  if (status != 0 && !sessions.empty()) {
    std::fflush(nullptr);
    ::_exit(status);
  }
  for (rueda_session* session : sessions) static_cast<void>(close_session(*session));
}

void remember(rueda_session* session) {
  static const int registered = ::on_exit(close_at_exit, nullptr);
  static_cast<void>(registered);
  MutexLock lock(live().mutex);
  live().sessions.push_back(session);
}

void forget(rueda_session* session) {
  MutexLock lock(live().mutex);
  if (std::erase(live().sessions, session) != 0) live().ended.push_back(session);
}

/// The slot of this worker of an elastic job, which it keeps for life; -1 in another job.
int slot_of(const rueda_session& session) {
  auto& shell = const_cast<rueda_session&>(session);
  MutexLock lock(shell.mutex);
  if (shell.elastic == nullptr) return -1;
  const int rank = shell.plan.rank_of(shell.elastic->members().worker());
  return rank < 0 ? -1 : shell.plan.workers[static_cast<size_t>(rank)].slot;
}

template <typename Query>
int32_t query(const rueda_session* session, Query&& ask) {
  int32_t answer = -1;
  guarded([&]() -> Status {
    const auto engine = engine_of(session);
    if (!engine.ok()) return engine.status();
    const std::optional<EpochPlan> forecast = forecast_of(*session);
    answer = static_cast<int32_t>(ask(forecast ? *forecast : engine.value()->plan()));
    return {};
  });
  return answer;
}

}  // namespace
}  // namespace rueda::core

namespace core = rueda::core;

int32_t rueda_init(const rueda_init_options* options, rueda_session** session) {
  return core::guarded([&]() -> core::Status {
    if (session == nullptr) return core::Status(core::Code::kInvalidArgument, "session is NULL");
    *session = nullptr;
    rueda_init_options copy{};
    RUEDA_RETURN_IF_ERROR(core::copy_in(options, "rueda_init_options", copy));
    auto opened = core::open_session(copy);
    if (!opened.ok()) return opened.status();
    *session = std::move(opened).value().release();
    core::remember(*session);
    return {};
  });
}

int32_t rueda_shutdown(rueda_session* session) {
  return core::guarded([&]() -> core::Status {
    if (session == nullptr) return {};
    if (core::Completer::in_callback()) {
      return core::Status(core::Code::kInvalidArgument, "rueda_shutdown may not be called inside a callback");
    }
    RUEDA_RETURN_IF_ERROR(core::engine_of(session).status());
    core::Status closed = core::close_session(*session);
    if (closed.ok()) core::forget(session);  // else it still says goodbye at the exit of the process
    return closed;
  });
}

int32_t rueda_rank(const rueda_session* session) {
  return core::query(session, [](const core::EpochPlan& plan) { return plan.rank; });
}

int32_t rueda_size(const rueda_session* session) {
  return core::query(session, [](const core::EpochPlan& plan) { return plan.size; });
}

int32_t rueda_local_rank(const rueda_session* session) {
  return core::query(session, [session](const core::EpochPlan& plan) {
    const int slot = core::slot_of(*session);
    return slot >= 0 ? slot : plan.local_rank();
  });
}

int32_t rueda_local_size(const rueda_session* session) {
  return core::query(session, [](const core::EpochPlan& plan) { return plan.local_size(); });
}

int32_t rueda_cross_rank(const rueda_session* session) {
  return core::query(session, [](const core::EpochPlan& plan) { return plan.cross_rank(); });
}

int32_t rueda_cross_size(const rueda_session* session) {
  return core::query(session, [](const core::EpochPlan& plan) { return plan.cross_size(); });
}

int32_t rueda_is_homogeneous(const rueda_session* session) {
  return core::query(session, [](const core::EpochPlan& plan) { return plan.homogeneous() ? 1 : 0; });
}

int32_t rueda_session_status(const rueda_session* session) {
  return core::guarded([&]() -> core::Status {
    const auto engine = core::engine_of(session);
    return engine.ok() ? engine.value()->status() : engine.status();
  });
}
