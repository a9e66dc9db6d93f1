#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/status.h"

namespace rueda::core {

/// Brings the launcher's requests for this rank's flight record, and takes the records back. The coordinator owns it.
class DumpSource {
 public:
  virtual ~DumpSource() = default;
  /// A descriptor that is readable when `take` may return a request. It stays the same.
  virtual int fd() const = 0;
  /// The number of a request, once; empty if there is none. The coordinator thread; never blocks.
  virtual std::optional<int64_t> take() = 0;
  /// Whether requests can still come. The coordinator thread.
  virtual bool open() const = 0;
  /// Hands the record over; may block for some seconds. The task thread.
  virtual Status give(int64_t number, const std::string& json) = 0;
};

}  // namespace rueda::core
