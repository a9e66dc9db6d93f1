// The functions of rueda.h about process sets.
#include <algorithm>

#include "bindings/c/check_call.h"
#include "bindings/c/last_error.h"
#include "bindings/c/session.h"

namespace rueda::core {
namespace {

Status refused(std::string why) { return {Code::kInvalidArgument, std::move(why)}; }

/// What `answer(members, own rank)` says about a set; -1 if there is no such set.
template <typename Answer>
int32_t query(const rueda_session* session, int32_t set, Answer&& answer) {
  int32_t value = -1;
  guarded([&]() -> Status {
    const Result<std::shared_ptr<Engine>> engine = engine_of(session);
    if (!engine.ok()) return engine.status();
    const Result<std::vector<int>> ranks = engine.value()->process_sets().ranks(static_cast<SetId>(set));
    if (!ranks.ok()) return ranks.status();
    const Result<int32_t> answered = answer(ranks.value(), engine.value()->plan().rank);
    if (answered.ok()) value = answered.value();
    return answered.status();
  });
  return value;
}

}  // namespace
}  // namespace rueda::core

namespace core = rueda::core;

int32_t rueda_process_set_add(rueda_session* session, size_t count, const int32_t* ranks, const char* name,
                              int32_t* set) {
  return core::guarded([&]() -> core::Status {
    if (set == nullptr) return core::refused("set is NULL");
    *set = -1;
    const auto engine = core::working_engine_of(session);
    if (!engine.ok()) return engine.status();
    if (ranks == nullptr && count != 0) return core::refused("ranks is NULL");
    if (!engine.value()->plan().settings.dynamic_process_sets) {
      return core::refused("RUEDA_DYNAMIC_PROCESS_SETS=0: only rueda_init can make process sets");
    }
    const auto size = static_cast<size_t>(engine.value()->plan().size);
    if (count > size) {
      return core::refused("a process set of " + std::to_string(count) + " ranks: the job has " + std::to_string(size));
    }
    const std::string wanted = name == nullptr ? "" : name;
    RUEDA_RETURN_IF_ERROR(core::check_name(wanted));
    if (wanted.starts_with(core::kOwnNames)) {
      return core::refused("process set \"" + wanted + "\": names that begin with \"" + std::string(core::kOwnNames) +
                           "\" are reserved for the library");
    }
    const auto added = engine.value()->add_process_set({ranks, ranks + count}, wanted);
    if (added.ok()) *set = static_cast<int32_t>(added.value());
    return added.status();
  });
}

int32_t rueda_process_set_remove(rueda_session* session, int32_t set) {
  return core::guarded([&]() -> core::Status {
    const auto engine = core::engine_of(session);
    return engine.ok() ? engine.value()->remove_process_set(static_cast<core::SetId>(set)) : engine.status();
  });
}

int32_t rueda_process_set_size(const rueda_session* session, int32_t set) {
  return core::query(session, set, [](const std::vector<int>& ranks, int) -> core::Result<int32_t> {
    return static_cast<int32_t>(ranks.size());
  });
}

int32_t rueda_process_set_rank(const rueda_session* session, int32_t set) {
  return core::query(session, set, [set](const std::vector<int>& ranks, int self) -> core::Result<int32_t> {
    const auto place = std::lower_bound(ranks.begin(), ranks.end(), self);
    if (place != ranks.end() && *place == self) return static_cast<int32_t>(place - ranks.begin());
    return core::refused("rank " + std::to_string(self) + " is not a member of process set " + std::to_string(set));
  });
}

int32_t rueda_process_set_ranks(const rueda_session* session, int32_t set, int32_t* ranks, size_t capacity,
                                size_t* count) {
  if (count != nullptr) *count = 0;
  const int32_t answered =
      core::query(session, set, [&](const std::vector<int>& members, int) -> core::Result<int32_t> {
        if (count == nullptr || (ranks == nullptr && capacity != 0)) return core::refused("ranks or count is NULL");
        *count = members.size();
        std::copy_n(members.begin(), std::min(capacity, members.size()), ranks);
        return 0;
      });
  return answered == 0 ? RUEDA_OK : rueda_last_error_code();
}
