#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "runtime/base/environment.h"
#include "runtime/base/status.h"

namespace rueda::core {

/// The job's pre-shared key; never printed, never on a command line. Empty only with RUEDA_INSECURE=1.
struct JobKey {
  std::array<uint8_t, 32> bytes{};
  bool present = false;
};

/// The job's key as the environment gives it, not present when it names none:
///
///   RUEDA_JOB_KEY_FD    a descriptor from which 32 bytes are read, once in a process; then it is closed. Later calls
///                       get what was read then. A file's offset is not moved: programs that run one after the
///                       other with the same descriptor all find the key.
///   RUEDA_JOB_KEY_FILE  a file of at least 32 bytes that belongs to this user and that nobody else may read or write;
///                       its first 32 bytes count.
///
/// kInvalidArgument names the variable, what is wrong with it, and what to do. Never logs the key. Any thread.
Result<JobKey> read_job_key(const Environment& environment);

/// The key of this user on this host, for jobs whose ranks are all here and whose launcher brings none: 32 bytes in the
/// file `key` of a folder that nobody else may enter, $XDG_RUNTIME_DIR/rueda, else /tmp/rueda-UID. Whoever comes first
/// makes it; it stays for later jobs. kSystem: the folder or the file cannot be made, or is not ours alone. Any thread,
/// any process.
Result<JobKey> user_key(const Environment& environment);

/// Eight hex digits that tell two keys of one job apart and give neither away: the first 32 bits of an HMAC-SHA256 of
/// the job's name. Empty without a key. Any thread.
std::string key_mark(const JobKey& key, const std::string& job);

/// The commands that make a key file, for error sentences.
const char* how_to_make_a_key();

}  // namespace rueda::core
