#pragma once
#include <atomic>
#include <memory>
#include <optional>

#include "bindings/c/completion_queue.h"
#include "bindings/c/elastic_job.h"
#include "bindings/c/rueda.h"
#include "runtime/base/fast_mutex.h"
#include "runtime/engine/device_table.h"
#include "runtime/engine/engine.h"
#include "runtime/store/store.h"

/// The target of a `rueda_session*`. The shell is small, outlives its shutdown and is never freed, so that a late call
/// gets an error instead of freed memory. Any thread.
struct rueda_session {
  rueda::core::FastMutex mutex;
  /// Null once shut down.
  std::shared_ptr<rueda::core::Engine> engine RUEDA_GUARDED_BY(mutex);
  std::shared_ptr<rueda::core::Store> store
      RUEDA_GUARDED_BY(mutex);              ///< hvdrun's, which records the goodbye; may be null
  rueda::core::DeviceTable devices;         ///< immutable
  std::string job RUEDA_GUARDED_BY(mutex);  ///< in which the engine's epoch was formed
  uint64_t process = 0;                     ///< the process it was made in: see `process_generation`
  /// Null if the job is not elastic, and once shut down.
  std::shared_ptr<rueda::core::ElasticJob> elastic RUEDA_GUARDED_BY(mutex);
  rueda::core::Plan plan RUEDA_GUARDED_BY(mutex);  ///< that of the engine, if the job is elastic
  /// While the session waits outside of the plan: ranks and hosts as `plan` would have them with this worker. Its
  /// engine is of this worker alone, and takes no operations.
  std::optional<rueda::core::EpochPlan> forecast RUEDA_GUARDED_BY(mutex);
  bool resetting RUEDA_GUARDED_BY(mutex) = false;  ///< a thread is in rueda_reset
  bool plan_left RUEDA_GUARDED_BY(mutex) = false;  ///< it is in no plan: a reset has not succeeded, or it waits
  rueda::core::Activity::Source activity RUEDA_GUARDED_BY(mutex);  ///< as the program has set it; may be empty
  std::atomic<uint64_t> groups{0};                                 ///< numbers of group instances
  /// Never null; the same from init on.
  const std::shared_ptr<rueda::core::CompletionQueue> completions = std::make_shared<rueda::core::CompletionQueue>();
};

namespace rueda::core {

/// A number that grows by one in every forked child, so that a session knows that it was inherited.
uint64_t process_generation();

/// Returns the engine of a live session. Returns kNotInitialized if the session is null, was shut down, or was made
/// before a fork.
Result<std::shared_ptr<Engine>> engine_of(const rueda_session* session);
/// The same for an operation. Returns also kInvalidArgument if the session waits outside.
Result<std::shared_ptr<Engine>> working_engine_of(const rueda_session* session);
/// Returns the ranks as they would be, if the session waits outside.
std::optional<EpochPlan> forecast_of(const rueda_session& session);

/// Reads options and environment, meets the other ranks and starts the engine. Blocks.
Result<std::unique_ptr<rueda_session>> open_session(const rueda_init_options& options);
/// Ends the engine and records the goodbye for the launcher. Returns ok for a session that has ended; kInvalidArgument
/// while another thread resets it.
Status close_session(rueda_session& session);

}  // namespace rueda::core
