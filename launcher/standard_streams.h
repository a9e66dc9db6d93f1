#pragma once
#include <string>

namespace rueda::core::launcher {

/// Opens /dev/null on those of descriptors 0, 1 and 2 that are closed (`hvdrun ... <&- >&-`, some daemons): else the
/// next socket would take the number, and what a library prints would go into it. Call it before anything else opens a
/// descriptor. False: /dev/null cannot be opened either.
bool open_closed_streams();

/// Writes out what stdio holds back of stdout. Empty, or why some of it was lost ("No space left on device").
std::string flush_stdout();

}  // namespace rueda::core::launcher
