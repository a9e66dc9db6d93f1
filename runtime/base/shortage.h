#pragma once
#include <cstdint>
#include <exception>
#include <string>

#include "runtime/base/status.h"

namespace rueda::core {

/// Returns the text of an errno. If a limit of this process can be behind it, the text names the limit, its value and
/// the command that raises it: "Too many open files; this process may open 24 (ulimit -n)". Any thread.
std::string reason_of(int error);
/// The same for what a library threw: the errno that it carries, or std::bad_alloc, else its own text.
std::string reason_of(const std::exception& error);
/// A kSystem with that text. Without memory for the text it says only that the memory is out.
Status failure_of(const std::exception& error) noexcept;
/// The same as `reason_of` for a thread that could not be started: the errno does not say which of several limits was
/// reached.
std::string no_thread_reason();

/// Counts how often the calling thread has put the shortage of descriptors into words. An attempt in which the count
/// grows has failed for this process's own limit, and not for the peer's.
uint64_t shortages_told();

}  // namespace rueda::core
