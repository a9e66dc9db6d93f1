#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/status.h"

namespace rueda::core {

/// Through which the launcher asks this rank for its flight record.
class DumpSource {
 public:
  virtual ~DumpSource() = default;
  /// Readable when `take` may have something to say. Stays the same.
  virtual int fd() const = 0;
  /// The coordinator thread, never blocks: the number of a request, once.
  virtual std::optional<int64_t> take() = 0;
  /// Whether requests can still come.
  virtual bool open() const = 0;
  /// Hands the record over; another thread, may block for some seconds.
  virtual Status give(int64_t number, const std::string& json) = 0;
};

}  // namespace rueda::core
