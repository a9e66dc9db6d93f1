#pragma once
#include <cstdint>
#include <string>

#include "rueda/session.hpp"

namespace rueda {

/// Where a session stands in its elastic job, and what is coming: rueda_membership_info of rueda.h.
struct Membership {
  int64_t plan = 0;  ///< 0: the job is not elastic
  int32_t rank = 0;
  int32_t size = 1;
  bool holds_state = false;  ///< this worker has formed an earlier plan with the others
  int64_t notices = 0;       ///< how many notices of coming plans the job has had
  int64_t pending_plan = 0;  ///< the latest plan that one leads to and the session is not in; 0: none
  bool workers_removed = false;
  bool workers_added = false;
  int32_t newcomers = 0;  ///< workers that are ready to join
  Seconds removal_in{0};  ///< until workers are stopped that the coming plan removes; 0: none
  bool waits = false;     ///< this worker waits outside of the job, see `InitOptions::wait_outside`
  bool pending() const { return pending_plan != 0; }
};

/// Leaves the plan and joins the next one in the same session: rank, size and connections are new; earlier handles
/// stay valid. Blocks until all members have joined, at most `timeout` (0: no limit). Other const calls may run
/// meanwhile and fail with SessionOver. Removed: the job goes on without this worker. Timeout, Mismatch, PeerLost,
/// Error as rueda_reset in rueda.h says; after these it may be called again.
inline void Session::reset(Seconds timeout) const {
  rueda_reset_options options{};
  options.struct_size = sizeof options;
  options.timeout_seconds = timeout.count();
  check(rueda_reset(session_, &options));
}

/// Ends the job's epoch on all ranks; their operations fail with PeerLost and this reason.
inline void Session::abort(const std::string& reason) const { check(rueda_abort(session_, reason.c_str())); }

/// Never blocks, and marks all notices as read.
inline Membership Session::membership() const {
  rueda_membership_info info{};
  info.struct_size = sizeof info;
  check(rueda_membership(session_, &info));
  return {info.plan,
          info.rank,
          info.size,
          info.holds_state != 0,
          info.notices,
          info.pending_plan,
          (info.pending & RUEDA_WORKERS_REMOVED) != 0,
          (info.pending & RUEDA_WORKERS_ADDED) != 0,
          info.newcomers,
          Seconds(info.removal_seconds),
          info.waits != 0};
}

/// A descriptor that is readable while there is a notice that `membership` has not reported, for poll and the like. Do
/// not read or close it. It stays the same after `reset`; `shutdown` and the destructor close it. Error: the job is not
/// elastic, or no descriptor is left.
inline int Session::membership_fd() const {
  int32_t fd = -1;
  check(rueda_membership_fd(session_, &fd));
  return fd;
}

/// The number that hvdrun gave this worker. Error: the job is not elastic.
inline int64_t Session::worker_id() const {
  const int64_t id = rueda_worker_id(session_);
  if (id < 0) check(rueda_last_error_code());
  return id;
}

/// The number of the worker that has `rank` in the session's plan. InvalidArgument: no such rank. Error: the job is not
/// elastic.
inline int64_t Session::worker_at(int32_t rank) const {
  const int64_t id = rueda_worker_at(session_, rank);
  if (id < 0) check(rueda_last_error_code());
  return id;
}

/// Returns whether the worker with this rank has formed an earlier plan, so that it has the training state. In
/// every plan but the first, rank 0 has it. Errors as `worker_at`.
inline bool Session::holds_state(int32_t rank) const {
  const int32_t holds = rueda_holds_state(session_, rank);
  if (holds < 0) check(rueda_last_error_code());
  return holds == 1;
}

}  // namespace rueda
