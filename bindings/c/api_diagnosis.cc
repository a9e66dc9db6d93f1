// The functions of rueda.h that say what a session does and has done.
#include "bindings/c/copy_out.h"
#include "bindings/c/last_error.h"
#include "bindings/c/session.h"
#include "runtime/base/log.h"
#include "runtime/diagnosis/dump_file.h"

namespace core = rueda::core;

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
    core::Engine::Activity activity;
    if (callback != nullptr) {
      activity = [callback, context](char* text, size_t capacity) { callback(context, text, capacity); };
    }
    engine.value()->set_activity(std::move(activity));
    return {};
  });
}
