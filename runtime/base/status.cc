// The names of error codes, as in rueda.h.
#include "runtime/base/status.h"

namespace rueda::core {

const char* code_name(Code code) {
  switch (code) {
    case Code::kOk: return "OK";
    case Code::kNotInitialized: return "NOT_INITIALIZED";
    case Code::kInvalidArgument: return "INVALID_ARGUMENT";
    case Code::kMismatch: return "MISMATCH";
    case Code::kPeerLost: return "PEER_LOST";
    case Code::kShutDown: return "SHUT_DOWN";
    case Code::kTimeout: return "TIMEOUT";
    case Code::kInterrupted: return "INTERRUPTED";
    case Code::kSystem: return "SYSTEM";
    case Code::kUnsupported: return "UNSUPPORTED";
    case Code::kRemoved: return "REMOVED";
  }
  return "?";
}

}  // namespace rueda::core
