#pragma once
#include "launcher/messages.h"

namespace rueda::core::launcher {

/// Describes this process as an agent: its build and its host. A field that cannot be found out stays empty.
Introduction introduce();

}  // namespace rueda::core::launcher
