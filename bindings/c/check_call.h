#pragma once
#include <cstddef>
#include <string_view>

#include "runtime/base/status.h"

namespace rueda::core {

/// Returns kInvalidArgument, with both numbers, if a group exceeds the limit.
Status check_group_size(size_t count);
/// Returns kInvalidArgument if the name exceeds 1024 bytes or is not UTF-8; the sentence says at which byte.
Status check_name(std::string_view name);

}  // namespace rueda::core
