// The functions of rueda.h about elastic jobs, and rueda_abort.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "bindings/c/copy_in.h"
#include "bindings/c/deadline_in.h"
#include "bindings/c/elastic_session.h"
#include "bindings/c/last_error.h"
#include "runtime/base/printable.h"
#include "runtime/engine/completer.h"

namespace rueda::core {
namespace {

constexpr size_t kMostReasonBytes = 1024;

/// A session's engine, and what an elastic job has beside it.
struct Standing {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<ElasticJob> elastic;
  Plan plan;
  bool waits = false;  ///< outside of the plan
};

Result<Standing> standing_of(const rueda_session* session) {
  RUEDA_RETURN_IF_ERROR(engine_of(session).status());
  auto* shell = const_cast<rueda_session*>(session);
  MutexLock lock(shell->mutex);
  if (shell->engine == nullptr) return Status(Code::kNotInitialized, "the session was shut down");
  return Standing{shell->engine, shell->elastic, shell->plan, shell->forecast.has_value()};
}

Result<Standing> elastic_standing_of(const rueda_session* session, const char* call) {
  auto standing = standing_of(session);
  if (standing.ok() && standing.value().elastic == nullptr) {
    return Status(Code::kUnsupported, std::string(call) + ": this job is not elastic; start it with hvdrun --min-np N");
  }
  return standing;
}

Result<PlannedWorker> worker_at(const rueda_session* session, int32_t rank, const char* call) {
  const auto standing = elastic_standing_of(session, call);
  if (!standing.ok()) return standing.status();
  const Plan& plan = standing.value().plan;
  if (rank < 0 || static_cast<size_t>(rank) >= plan.workers.size()) {
    return Status(Code::kInvalidArgument, fmt::format("{}: rank {} is not in plan {}; its ranks are 0 to {}", call,
                                                      rank, plan.number, plan.workers.size() - 1));
  }
  return plan.workers[static_cast<size_t>(rank)];
}

rueda_membership_info info_of(const Standing& standing) {
  rueda_membership_info info{};
  info.rank = standing.engine->plan().rank;
  info.size = standing.engine->plan().size;
  if (standing.elastic == nullptr) return info;
  const PendingPlans pending = standing.elastic->members().pending();
  info.plan = static_cast<int64_t>(standing.plan.number);
  info.waits = standing.waits ? 1 : 0;
  info.notices = pending.heard;
  info.pending_plan = static_cast<int64_t>(pending.plan);
  info.pending = static_cast<int32_t>(pending.changes);
  info.newcomers = static_cast<int32_t>(pending.newcomers);
  info.removal_seconds = pending.seconds_to_removal;
  const int rank = standing.plan.rank_of(standing.elastic->members().worker());
  if (standing.waits) {
    info.rank = rank;
    info.size = static_cast<int32_t>(standing.plan.workers.size());
  }
  if (rank >= 0) info.holds_state = standing.plan.workers[static_cast<size_t>(rank)].holds_state;
  return info;
}

/// Text that is safe in a sentence, at most the limit.
std::string reason_in(const char* reason) {
  return printable(std::string_view(reason, ::strnlen(reason, kMostReasonBytes)));
}

}  // namespace
}  // namespace rueda::core

namespace core = rueda::core;

int32_t rueda_abort(rueda_session* session, const char* reason) {
  return core::guarded([&]() -> core::Status {
    const auto standing = core::standing_of(session);
    if (!standing.ok()) return standing.status();
    if (standing.value().waits) return standing.value().engine->status();
    if (reason == nullptr || *reason == '\0') {
      return {core::Code::kInvalidArgument, "rueda_abort needs a reason: the other ranks read it"};
    }
    const core::EpochPlan& plan = standing.value().engine->plan();
    const std::string sentence =
        fmt::format("{} ended the epoch: {}", plan.name_of(plan.rank), core::reason_in(reason));
    standing.value().engine->end_epoch(core::Status(core::Code::kPeerLost, sentence, plan.rank));
    return {};
  });
}

int32_t rueda_reset(rueda_session* session, const rueda_reset_options* options) {
  return core::guarded([&]() -> core::Status {
    if (core::Completer::in_callback()) {
      return {core::Code::kInvalidArgument, "rueda_reset may not be called inside a callback"};
    }
    RUEDA_RETURN_IF_ERROR(core::engine_of(session).status());
    rueda_reset_options copy{};
    RUEDA_RETURN_IF_ERROR(core::copy_in(options, "rueda_reset_options", copy));
    const double seconds = copy.timeout_seconds;
    if (!(seconds >= 0)) {
      return {core::Code::kInvalidArgument,
              fmt::format("rueda_reset: timeout_seconds is {}; it must be 0 (hvdrun's limits) or more", seconds)};
    }
    return core::reset_session(*session, seconds > 0 ? core::deadline_in(seconds) : core::Deadline::never());
  });
}

int32_t rueda_membership(rueda_session* session, rueda_membership_info* info) {
  return core::guarded([&]() -> core::Status {
    if (info == nullptr) return {core::Code::kInvalidArgument, "info is NULL"};
    size_t given = 0;
    std::memcpy(&given, info, sizeof given);
    if (given < sizeof given) return {core::Code::kInvalidArgument, "info->struct_size is not set"};
    const auto standing = core::standing_of(session);
    if (!standing.ok()) return standing.status();
    rueda_membership_info filled = core::info_of(standing.value());
    filled.struct_size = std::min(given, sizeof filled);
    std::memcpy(info, &filled, filled.struct_size);
    return {};
  });
}

int32_t rueda_membership_fd(rueda_session* session, int32_t* fd) {
  return core::guarded([&]() -> core::Status {
    if (fd == nullptr) return {core::Code::kInvalidArgument, "fd is NULL"};
    *fd = -1;
    const auto standing = core::elastic_standing_of(session, "rueda_membership_fd");
    if (!standing.ok()) return standing.status();
    const auto descriptor = standing.value().elastic->members().notice_fd();
    if (descriptor.ok()) *fd = descriptor.value();
    return descriptor.status();
  });
}

int64_t rueda_worker_id(const rueda_session* session) {
  int64_t id = -1;
  core::guarded([&]() -> core::Status {
    const auto standing = core::elastic_standing_of(session, "rueda_worker_id");
    if (standing.ok()) id = standing.value().elastic->members().worker();
    return standing.status();
  });
  return id;
}

int64_t rueda_worker_at(const rueda_session* session, int32_t rank) {
  int64_t id = -1;
  core::guarded([&]() -> core::Status {
    const auto worker = core::worker_at(session, rank, "rueda_worker_at");
    if (worker.ok()) id = worker.value().id;
    return worker.status();
  });
  return id;
}

int32_t rueda_holds_state(const rueda_session* session, int32_t rank) {
  int32_t holds = -1;
  core::guarded([&]() -> core::Status {
    const auto worker = core::worker_at(session, rank, "rueda_holds_state");
    if (worker.ok()) holds = worker.value().holds_state;
    return worker.status();
  });
  return holds;
}
