#pragma once

namespace rueda::core {

/// How a kernel writes memory that another core will read: through the cache, or past it (design: "Distance").
/// After non-temporal stores the kernel itself issues the store fence.
enum class StoreHint { kPlain, kNonTemporal };

}  // namespace rueda::core
