#pragma once
#include <string>

#include "runtime/base/secret_key.h"
#include "runtime/base/status.h"

namespace rueda::core {

/// Returns 32 unpredictable bytes from the kernel. Returns kSystem if the kernel gives none.
Result<SecretKey> random_key();
/// Returns 128 random bits as 32 hex digits: a name that no other process has. Errors like `random_key`.
Result<std::string> random_name();

}  // namespace rueda::core
