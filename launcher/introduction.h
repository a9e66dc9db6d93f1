#pragma once
#include "launcher/messages.h"

namespace rueda::core::launcher {

/// This process as an agent: its build and its host. What cannot be found out is empty.
Introduction introduce();

}  // namespace rueda::core::launcher
