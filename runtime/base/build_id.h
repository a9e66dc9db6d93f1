#pragma once

namespace rueda::core {

/// Names the sources this library was built from: the version and the first 16 hex digits of a SHA-256 over them. Equal
/// for everything of one build; ranks and plug-ins with another one are refused.
const char* build_id();

}  // namespace rueda::core
