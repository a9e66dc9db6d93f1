#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>

#include "rueda.h"

namespace rueda {

/// The exception that every function of this binding throws: a code of rueda.h and a sentence with rank, value and
/// limit. The classes below differ in what the caller can do; catch the one that you can handle.
class Error : public std::runtime_error {
 public:
  Error(int32_t code, const std::string& sentence) : std::runtime_error(sentence), code_(code) {}
  int32_t code() const noexcept { return code_; }  ///< RUEDA_MISMATCH and so on
  const char* code_name() const noexcept { return rueda_error_name(code_); }

 private:
  int32_t code_;
};

/// The session was moved from or shut down.
class NotInitialized : public Error {
 public:
  using Error::Error;
};
/// The call is wrong: correct it and call again. From an enqueue: nothing was enqueued. From a wait: this rank's output
/// does not have the shape that arrived.
class InvalidArgument : public Error {
 public:
  using Error::Error;
};
/// Ranks submitted different things under one name; the sentence is the same on all. The session stays usable.
class Mismatch : public Error {
 public:
  using Error::Error;
};
/// The session has ended: destroy it, and make a new one; or reset it in an elastic job.
class SessionOver : public Error {
 public:
  using Error::Error;
};
/// A rank died; the sentence names rank, host, pid and cause.
class PeerLost : public SessionOver {
 public:
  using SessionOver::SessionOver;
};
/// This rank, or one that the operation needs, has said goodbye.
class ShutDown : public SessionOver {
 public:
  using SessionOver::SessionOver;
};
/// The elastic job goes on without this worker: destroy the session and exit with code 0.
class Removed : public SessionOver {
 public:
  using SessionOver::SessionOver;
};
/// An operation's or init's limit passed.
class Timeout : public Error {
 public:
  using Error::Error;
};
/// A signal arrived during a wait. The operation is in flight: wait again.
class Interrupted : public Error {
 public:
  using Error::Error;
};

/// Throws the class that belongs to `code`, which is not RUEDA_OK.
[[noreturn]] inline void throw_error(int32_t code, const std::string& sentence) {
  switch (code) {
    case RUEDA_NOT_INITIALIZED: throw NotInitialized(code, sentence);
    case RUEDA_INVALID_ARGUMENT: throw InvalidArgument(code, sentence);
    case RUEDA_MISMATCH: throw Mismatch(code, sentence);
    case RUEDA_PEER_LOST: throw PeerLost(code, sentence);
    case RUEDA_SHUT_DOWN: throw ShutDown(code, sentence);
    case RUEDA_TIMEOUT: throw Timeout(code, sentence);
    case RUEDA_INTERRUPTED: throw Interrupted(code, sentence);
    case RUEDA_REMOVED: throw Removed(code, sentence);
    default:
      throw Error(code, sentence);  // RUEDA_SYSTEM, RUEDA_UNSUPPORTED: the sentence says what failed or is missing
  }
}

/// Throws unless `code`, just returned to this thread by a function of rueda.h, is RUEDA_OK.
inline void check(int32_t code) {
  if (code != RUEDA_OK) throw_error(code, rueda_last_error());
}

}  // namespace rueda
