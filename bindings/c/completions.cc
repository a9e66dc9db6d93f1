// The functions of rueda.h for event loops and for names that come again.
#include "bindings/c/check_call.h"
#include "bindings/c/completion_queue.h"
#include "bindings/c/last_error.h"
#include "bindings/c/session.h"

namespace core = rueda::core;

int32_t rueda_intern(rueda_session* session, const char* name, int64_t* id) {
  return core::guarded([&]() -> core::Status {
    if (id == nullptr) return core::Status(core::Code::kInvalidArgument, "id is NULL");
    *id = 0;
    if (name == nullptr) return core::Status(core::Code::kInvalidArgument, "name is NULL");
    RUEDA_RETURN_IF_ERROR(core::engine_of(session).status());
    RUEDA_RETURN_IF_ERROR(core::check_name(name));
    core::MutexLock lock(session->mutex);  // a reset hands the numbers on to the next engine
    if (session->engine == nullptr) return core::Status(core::Code::kNotInitialized, "the session was shut down");
    const auto number = session->engine->intern(name);
    if (number.ok()) *id = number.value();
    return number.status();
  });
}

int32_t rueda_completion_fd(rueda_session* session, int32_t* fd) {
  return core::guarded([&]() -> core::Status {
    if (fd == nullptr) return core::Status(core::Code::kInvalidArgument, "fd is NULL");
    *fd = -1;
    RUEDA_RETURN_IF_ERROR(core::engine_of(session).status());
    const auto descriptor = session->completions->fd();
    if (descriptor.ok()) *fd = descriptor.value();
    return descriptor.status();
  });
}

int32_t rueda_drain(rueda_session* session, rueda_completion* out, size_t capacity, size_t* count) {
  return core::guarded([&]() -> core::Status {
    if (count == nullptr) return core::Status(core::Code::kInvalidArgument, "count is NULL");
    *count = 0;
    if (out == nullptr && capacity > 0) return core::Status(core::Code::kInvalidArgument, "out is NULL");
    const core::Result<std::shared_ptr<core::Engine>> engine = core::engine_of(session);
    if (!engine.ok()) return engine.status();
    engine.value()->look();
    *count = session->completions->drain(out, capacity);
    return {};
  });
}
