// What a session writes for hvdrun when it ends. A store that is gone is not a failure of the session: hvdrun has ended
// then.
#include "bindings/c/launcher_notes.h"

#include "runtime/base/log.h"
#include "runtime/store/store_keys.h"

namespace rueda::core {
namespace {

void log_unless_noted(const Status& noted, int rank) {
  if (!noted.ok()) log(LogLevel::kInfo, "rank {}: cannot record its goodbye: {}", rank, noted.sentence());
}

}  // namespace

bool ended_well(const Status& end) { return end.ok() || end.code() == Code::kShutDown; }

void note_leaving(Store& store, const std::string& job, int rank) {
  log_unless_noted(store.add(leaving_key(job, rank), 1).status(), rank);
}

void note_end(Store& store, const std::string& job, int rank, const Status& end) {
  Status noted;
  if (ended_well(end)) {
    noted = store.add(goodbyes_key(job, rank), 1).status();
  } else {
    const Result<int64_t> wishes = store.add(wishes_key(job, rank), 0);
    noted = wishes.ok() ? store.set(failed_key(job, rank, wishes.value()), end.sentence()) : wishes.status();
  }
  log_unless_noted(noted, rank);
}

}  // namespace rueda::core
