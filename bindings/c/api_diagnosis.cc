// The functions of rueda.h that say what a session does and has done.
#include <chrono>
#include <cstring>
#include <string>

#include "bindings/c/copy_out.h"
#include "bindings/c/last_error.h"
#include "bindings/c/session.h"
#include "runtime/base/log.h"
#include "runtime/diagnosis/dump_file.h"

namespace core = rueda::core;

namespace {

constexpr size_t kMaxPathBytes = 4096;
constexpr std::chrono::seconds kStopLimit{5};

}  // namespace

int32_t rueda_stats(const rueda_session* session, char* json, size_t capacity, size_t* bytes) {
  return core::guarded([&]() -> core::Status {
    const auto engine = core::engine_of(session);
    return engine.ok() ? core::copy_out(engine.value()->stats(), json, capacity, bytes) : engine.status();
  });
}

int32_t rueda_dump(rueda_session* session, const char* path) {
  return core::guarded([&]() -> core::Status {
    const auto engine = core::engine_of(session);
    if (!engine.ok()) return engine.status();
    if (path != nullptr && *path == '\0') {
      return {core::Code::kInvalidArgument, "path is empty; NULL writes to the log"};
    }
    const core::RankDump dump = engine.value()->dump();
    if (path != nullptr) return core::write_dump(dump, path);
    for (const std::string& line : core::dump_lines(dump)) core::log(core::LogLevel::kWarning, "{}", line);
    return {};
  });
}

int32_t rueda_set_activity_callback(rueda_session* session, rueda_activity_callback callback, void* context) {
  return core::guarded([&]() -> core::Status {
    const auto engine = core::engine_of(session);
    if (!engine.ok()) return engine.status();
    core::Activity::Source activity;
    if (callback != nullptr) {
      activity = [callback, context](char* text, size_t capacity) { callback(context, text, capacity); };
    }
    core::MutexLock lock(session->mutex);  // a reset hands it on to the next engine
    session->activity = activity;
    if (session->engine != nullptr) session->engine->set_activity(std::move(activity));
    return {};
  });
}

int32_t rueda_start_timeline(rueda_session* session, const char* path, int32_t mark_cycles) {
  return core::guarded([&]() -> core::Status {
    const auto engine = core::engine_of(session);
    if (!engine.ok()) return engine.status();
    if (path == nullptr || *path == '\0' || std::strlen(path) > kMaxPathBytes) {
      return {core::Code::kInvalidArgument,
              "a timeline needs a path of 1 to " + std::to_string(kMaxPathBytes) + " bytes"};
    }
    return engine.value()->start_timeline(path, mark_cycles != 0);
  });
}

int32_t rueda_stop_timeline(rueda_session* session) {
  return core::guarded([&]() -> core::Status {
    const auto engine = core::engine_of(session);
    return engine.ok() ? engine.value()->stop_timeline(core::Deadline::after(kStopLimit)) : engine.status();
  });
}
