#pragma once
#include <memory>

#include "runtime/engine/dump_source.h"
#include "runtime/engine/verdict_source.h"
#include "runtime/store/store_client.h"

namespace rueda::core {

/// The two ways in which a launcher talks to a rank through its store.
struct LauncherLink {
  std::unique_ptr<VerdictSource> verdicts;
  std::unique_ptr<DumpSource> dumps;
};

/// Makes one connection for each. Returns the store's errors.
Result<LauncherLink> link_to_launcher(const StoreLocation& where, int rank, Deadline deadline);

}  // namespace rueda::core
