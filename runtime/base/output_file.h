#pragma once
#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core {

/// Opens `path` for an output whose name others can guess, and empties it if it is a regular file. Never blocks. `what`
/// says what the file is for, as in "the flight record". Returns kSystem if it cannot be opened, if it is a FIFO that
/// no process reads, or if the name is a symbolic link of another user, which would send the output elsewhere.
Result<UniqueFd> open_output(const std::string& what, const std::string& path);

/// Makes the file `path` anew, readable and writable, in place of one that is there. Never follows a link. Returns
/// kSystem as `open_output`.
Result<UniqueFd> make_output(const std::string& what, const std::string& path);

/// Returns kSystem if `path` is a symbolic link that neither this user nor root has made: another user could have
/// planted it under a name that is easy to guess.
Status check_link(const std::string& what, const std::string& path);

/// Writes all of `text`. Returns false with errno.
bool write_all(int file, std::string_view text);

}  // namespace rueda::core
