#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>

namespace rueda::core {

/// Kinds of failure, by what the caller should do. The values are those of `rueda.h` and never change.
enum class Code : int32_t {
  kOk = 0,
  kNotInitialized = 1,   ///< call init first
  kInvalidArgument = 2,  ///< the call is wrong, and nothing was enqueued; or an output has another shape
  kMismatch = 3,         ///< ranks disagree; the runtime stays usable
  kPeerLost = 4,         ///< a rank died; the epoch is over
  kShutDown = 5,         ///< this rank, or one that the operation needs, has shut down
  kTimeout = 6,          ///< a deadline passed; the operation may still be in flight
  kInterrupted = 7,      ///< a signal arrived during a wait; wait again
  kSystem = 8,           ///< memory, descriptors, the network or another process failed; the sentence says which
  kUnsupported = 9,      ///< this build or machine cannot do it
  kRemoved = 10,         ///< an elastic job goes on without this worker
};

/// Success; or a code, a sentence (which rank, what, value, limit), and the rank that it is about (-1: none).
/// Cheap to copy and, when ok, to make. A value: any thread.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string sentence, int rank = -1)
      : rep_(std::make_shared<const Rep>(Rep{code, rank, std::move(sentence)})) {}

  bool ok() const { return rep_ == nullptr; }
  Code code() const { return rep_ ? rep_->code : Code::kOk; }
  int rank() const { return rep_ ? rep_->rank : -1; }
  const std::string& sentence() const {
    static const std::string kNone;
    return rep_ ? rep_->sentence : kNone;
  }

 private:
  struct Rep {
    Code code;
    int rank;
    std::string sentence;
  };
  std::shared_ptr<const Rep> rep_;
};

/// A `T`, or the `Status` that says why there is none. Ask `ok()` first: `value()` of a failure ends the process.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : v_(std::move(value)) {}           // NOLINT(google-explicit-constructor)
  Result(Status failure) : v_(std::move(failure)) {}  // NOLINT(google-explicit-constructor)
  bool ok() const { return std::holds_alternative<T>(v_); }
  Status status() const { return ok() ? Status() : std::get<Status>(v_); }
  T& value() & { return std::get<T>(v_); }
  const T& value() const& { return std::get<T>(v_); }
  T&& value() && { return std::get<T>(std::move(v_)); }

 private:
  std::variant<T, Status> v_;
};

/// The name of a code as in `rueda.h`, without the prefix: "PEER_LOST".
const char* code_name(Code code);

}  // namespace rueda::core

/// Returns from the enclosing function with the status of `expression` unless it is ok.
#define RUEDA_RETURN_IF_ERROR(expression)                                            \
  do {                                                                               \
    if (::rueda::core::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)
