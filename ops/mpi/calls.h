#pragma once
#include <mpi.h>

#include <string>

#include "runtime/base/status.h"

namespace rueda::mpi {

using core::Code;
using core::Status;

/// What an MPI function's return value says. Communicators of ours return errors instead of ending the process; what
/// can fail there at all is a peer or the network.
inline Status checked(int code, const char* function) {
  if (code == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {Code::kPeerLost, std::string(function) + ": " + std::string(text, static_cast<size_t>(length))};
}

}  // namespace rueda::mpi
