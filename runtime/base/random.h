#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "runtime/base/status.h"

namespace rueda::core {

/// 32 bytes nobody can guess, from the kernel. kSystem: it has none.
Result<std::array<uint8_t, 32>> random_key();
/// 128 random bits as 32 hex digits: names that never meet again.
Result<std::string> random_name();

}  // namespace rueda::core
