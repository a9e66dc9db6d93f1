#pragma once
#include <string>

#include "runtime/base/environment.h"
#include "runtime/base/secret_key.h"
#include "runtime/base/status.h"

namespace rueda::core {

/// The job's pre-shared key. It is never logged and never on a command line. `present` is false only with
/// RUEDA_INSECURE=1.
struct JobKey {
  SecretKey bytes{};
  bool present = false;
};

/// The job's key as the environment gives it, not present when it names none:
///
///   RUEDA_JOB_KEY_FD    a descriptor from which 32 bytes are read, once in a process; then it is closed. Later calls
///                       return the same key. A file's offset is not moved: programs that run one after the other
///                       with the same descriptor all find the key. A file has exactly 32 bytes.
///   RUEDA_JOB_KEY_FILE  a file of exactly 32 bytes that belongs to this user and that no other user may read or write.
///                       A longer file is another kind of key, and its first bytes may be the same for all of its
///                       kind.
///
/// Returns kInvalidArgument with the variable, what is wrong with it, and what to do. Never logs the key. Any thread.
Result<JobKey> read_job_key(const Environment& environment);

/// The key of this user on this host, for jobs whose ranks are all here and whose launcher brings none: 32 bytes in the
/// file `key` of a folder that no other user may enter: $XDG_RUNTIME_DIR/rueda, or /tmp/rueda-UID if that variable is
/// not set. The first process that needs it makes it; it stays for later jobs. Returns kSystem if the folder or the
/// file cannot be made, or belongs to another user or is open to others. Any thread, any process.
Result<JobKey> user_key(const Environment& environment);

/// Eight hex digits that tell two keys of one job apart and give neither away: the first 32 bits of an HMAC-SHA256 of
/// the job's name. Empty if there is no key. Any thread.
std::string key_mark(const JobKey& key, const std::string& job);

/// The commands that make a key file, for error sentences.
const char* how_to_make_a_key();

}  // namespace rueda::core
