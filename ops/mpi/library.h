#pragma once
#include <string>
#include <string_view>

namespace rueda::mpi {

/// An MPI library: its family, name and version. A value.
struct Library {
  /// Libraries of one family share an ABI: a program built for one runs with another.
  enum class Family { kOpenMpi, kMpich, kOther };
  Family family = Family::kOther;
  std::string name;     ///< "Open MPI", "MPICH", "Intel MPI", ...
  std::string version;  ///< "4.1.4"

  std::string text() const { return version.empty() ? name : name + " " + version; }
};

/// Reads what MPI_Get_library_version says. An unknown library is named by its first line. Pure.
Library parse_library(std::string_view text);

/// Whether a plug-in built for one runs with the other: Open MPI from 3 to 5 has one ABI, MPICH and what follows it
/// (Intel, Cray, MVAPICH) another. Pure.
bool same_abi(const Library& built_for, const Library& found);

/// The library that the included mpi.h belongs to.
Library built_for();

}  // namespace rueda::mpi
