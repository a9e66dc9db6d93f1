// What MPI libraries say of themselves, and which of them run with a plug-in built for another.
#include "ops/mpi/library.h"

#include <catch2/catch.hpp>

using namespace rueda::mpi;

TEST_CASE("libraries are known by what they say of themselves") {
  CHECK(
      parse_library("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4, May 26, 2022").text() ==
      "Open MPI 4.1.4");
  CHECK(parse_library("MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7 12:34:45 CDT 2022\nMPICH ABI:\t14:2:2")
            .text() == "MPICH 4.0.2");
  CHECK(parse_library("Intel(R) MPI Library 2021.9 for Linux* OS\n").text() == "Intel MPI 2021.9");
  CHECK(parse_library("MPI VERSION    : CRAY MPICH version 8.1.25.17 (ANL base 3.4a2)\n").text() ==
        "Cray MPICH 8.1.25.17");
  CHECK(parse_library("MVAPICH2 Version      :       2.3.7\n").text() == "MVAPICH 2.3.7");
  CHECK(parse_library("Dancing MPI, third edition\nof last year").text() == "Dancing MPI, third edition");
  CHECK(parse_library("").text().empty());
}

TEST_CASE("a plug-in runs with the libraries that share the ABI of its own, and with no other") {
  const auto open_mpi = [](const std::string& version) {
    return Library{Library::Family::kOpenMpi, "Open MPI", version};
  };
  const Library mpich{Library::Family::kMpich, "MPICH", "4.0.2"};
  const Library intel{Library::Family::kMpich, "Intel MPI", "2021.9"};
  const Library unknown{Library::Family::kOther, "Dancing MPI", ""};
  const Library other{Library::Family::kOther, "Marching MPI", ""};
  CHECK(same_abi(open_mpi("4.1.4"), open_mpi("5.0.1")));
  CHECK(same_abi(open_mpi("3.1.0"), open_mpi("4.1.4")));
  CHECK_FALSE(same_abi(open_mpi("2.1.0"), open_mpi("4.1.4")));
  CHECK_FALSE(same_abi(open_mpi("4.1.4"), open_mpi("6.0.0")));
  CHECK(same_abi(mpich, intel));
  CHECK_FALSE(same_abi(open_mpi("4.1.4"), mpich));
  CHECK_FALSE(same_abi(mpich, open_mpi("4.1.4")));
  CHECK(same_abi(unknown, unknown));
  CHECK_FALSE(same_abi(unknown, other));
}
