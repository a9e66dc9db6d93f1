#pragma once
#include <optional>
#include <string>

#include "runtime/base/deadline.h"
#include "runtime/store/store_client.h"

namespace rueda::core {

/// How rank 0 tells the ranks of its host that it cannot serve the store, most often because another program has the
/// port. They would talk to that program until their deadline. An abstract Unix socket carries the sentence, between
/// processes of one user only. Any thread.

/// The socket's name for the store that would be at `where`.
std::string notice_name(const StoreLocation& where);

/// Tells the sentence to `count` ranks. Blocks until they have come, at most until the deadline.
void give_notice(const std::string& name, const std::string& sentence, int count, Deadline deadline);

/// Returns the sentence, or nothing if rank 0 gives no notice now. Blocks for a second at most.
std::optional<std::string> read_notice(const std::string& name);

}  // namespace rueda::core
