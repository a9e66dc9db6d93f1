#pragma once
#include <cstddef>
#include <string_view>

#include "runtime/base/status.h"

namespace rueda::core {

/// kInvalidArgument: a group of more members than the limit; names both.
Status check_group_size(size_t count);
/// kInvalidArgument: longer than 1024 bytes, or not UTF-8; says where.
Status check_name(std::string_view name);

}  // namespace rueda::core
