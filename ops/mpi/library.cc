// Which MPI library this is, from the text that it gives of itself, and which others a plug-in built for it can run
// with.
//
//   "Open MPI v4.1.4, package: ..."           Open MPI 4.1.4     ABI of Open MPI 3 to 5
//   "MPICH Version:    4.1.2 ..."             MPICH 4.1.2        ABI of MPICH and all that follow it
//   "Intel(R) MPI Library 2021.11 for ..."    Intel MPI 2021.11  the same
#include "ops/mpi/library.h"

#include <algorithm>
#include <cstdlib>

namespace rueda::mpi {
namespace {

struct Known {
  const char* mark;  ///< in the library's own text
  const char* name;
  Library::Family family;
};
/// The first that fits: what follows MPICH often names it as well.
constexpr Known kKnown[] = {{"Open MPI", "Open MPI", Library::Family::kOpenMpi},
                            {"Intel(R) MPI", "Intel MPI", Library::Family::kMpich},
                            {"CRAY MPICH", "Cray MPICH", Library::Family::kMpich},
                            {"MVAPICH", "MVAPICH", Library::Family::kMpich},
                            {"MPICH", "MPICH", Library::Family::kMpich}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The first number with a point in it: 4.1.4
std::string first_version(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (!is_digit(text[i]) || (i > 0 && (is_digit(text[i - 1]) || text[i - 1] == '.'))) continue;
    size_t end = i;
    while (end < text.size() && (is_digit(text[end]) || text[end] == '.')) ++end;
    const std::string_view number = text.substr(i, end - i);
    if (number.find('.') != std::string_view::npos) return std::string(number);
  }
  return {};
}

int major_of(const Library& library) { return std::atoi(library.version.c_str()); }

/// Which of Open MPI's ABIs: that of 3 has lasted.
int open_mpi_abi(const Library& library) {
  const int major = major_of(library);
  return major >= 3 && major <= 5 ? 3 : major;
}

}  // namespace

Library parse_library(std::string_view text) {
  for (const Known& known : kKnown) {
    const size_t at = text.find(known.mark);
    if (at != std::string_view::npos) return {known.family, known.name, first_version(text.substr(at))};
  }
  return {Library::Family::kOther, std::string(text.substr(0, std::min(text.find('\n'), text.size()))), ""};
}

bool same_abi(const Library& built_for, const Library& found) {
  if (built_for.family != found.family) return false;
  switch (built_for.family) {
    case Library::Family::kOpenMpi: return open_mpi_abi(built_for) == open_mpi_abi(found);
    case Library::Family::kMpich: return true;
    case Library::Family::kOther: return built_for.name == found.name;
  }
  return false;
}

}  // namespace rueda::mpi
