#pragma once
#include <string>

namespace rueda::core::launcher {

/// Opens /dev/null on each of the descriptors 0, 1 and 2 that is closed (`hvdrun ... <&- >&-`, some daemons). Otherwise
/// the next socket would take the number, and what a library prints would go into it. Call it before any other code
/// opens a descriptor. Returns false if /dev/null cannot be opened.
bool open_closed_streams();

/// Writes out what stdio has buffered for stdout. Returns why some of it was lost ("No space left on device"), or
/// empty.
std::string flush_stdout();

}  // namespace rueda::core::launcher
