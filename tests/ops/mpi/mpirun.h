#pragma once
#include <string>
#include <vector>

#include "tests/support/namespaces.h"

namespace rueda::test {

/// How ranks are put on hosts where there is but one: each alone, in pairs, or all together.
enum class Hosts { kAlone, kPairs, kTogether };

/// Runs a program of the build's bin folder under mpirun to its end, as root if that is who we are. `variables`:
/// "NAME=value" for the ranks. Ranks that are not together have hosts by name only: they share no memory of Rueda's.
CommandResult mpirun(int ranks, Hosts hosts, const std::vector<std::string>& variables,
                     const std::vector<std::string>& program);

/// How often `text` is in `all`.
int count_of(const std::string& all, const std::string& text);

}  // namespace rueda::test
