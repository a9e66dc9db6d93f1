#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "runtime/base/status.h"

namespace rueda::core {

/// Returns 32 unpredictable bytes from the kernel. Returns kSystem if the kernel gives none.
Result<std::array<uint8_t, 32>> random_key();
/// Returns 128 random bits as 32 hex digits: a name that no other process has. Errors like `random_key`.
Result<std::string> random_name();

}  // namespace rueda::core
