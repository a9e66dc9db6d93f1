// What mpi.h says of itself. A macro that it does not have is seen as its own name.
#include <mpi.h>

#include <algorithm>

#include "ops/mpi/library.h"

#define RUEDA_TEXT_OF(macro) #macro
#define RUEDA_VALUE_OF(macro) RUEDA_TEXT_OF(macro)

namespace rueda::mpi {
namespace {

/// The text of a number or of a quoted string.
std::string plain(std::string value) {
  std::erase(value, '"');
  return value;
}

bool is_defined(const std::string& value) { return !value.empty() && value[0] >= '0' && value[0] <= '9'; }

}  // namespace

Library built_for() {
  const std::string major = RUEDA_VALUE_OF(OMPI_MAJOR_VERSION);
  if (is_defined(major)) {
    return {Library::Family::kOpenMpi, "Open MPI",
            major + "." + RUEDA_VALUE_OF(OMPI_MINOR_VERSION) + "." + RUEDA_VALUE_OF(OMPI_RELEASE_VERSION)};
  }
  const std::string intel = plain(RUEDA_VALUE_OF(I_MPI_VERSION));
  if (is_defined(intel)) return {Library::Family::kMpich, "Intel MPI", intel};
  const std::string mvapich = plain(RUEDA_VALUE_OF(MVAPICH2_VERSION));
  if (is_defined(mvapich)) return {Library::Family::kMpich, "MVAPICH", mvapich};
  const std::string mpich = plain(RUEDA_VALUE_OF(MPICH_VERSION));
  if (is_defined(mpich)) return {Library::Family::kMpich, "MPICH", mpich};
  return {Library::Family::kOther, "an unknown MPI", ""};
}

}  // namespace rueda::mpi
