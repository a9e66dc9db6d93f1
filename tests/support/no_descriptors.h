#pragma once
#include <fcntl.h>
#include <sys/resource.h>

#include <chrono>
#include <ctime>
#include <stdexcept>
#include <vector>

#include "runtime/base/unique_fd.h"

namespace rueda::test {

/// While it lives, this process can open no descriptor, except one for each `free_one`. Throws std::runtime_error if
/// the limit cannot be set, or if the process has as many descriptors already.
class NoDescriptors {
 public:
  NoDescriptors() {
    if (getrlimit(RLIMIT_NOFILE, &before_) != 0) throw std::runtime_error("getrlimit failed");
    const rlimit few{kFew, before_.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &few) != 0) throw std::runtime_error("setrlimit failed");
    do {
      taken_.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
    } while (taken_.back().valid());
    taken_.pop_back();
    if (!taken_.empty()) return;
    restore();
    throw std::runtime_error("the process has 128 descriptors already");
  }
  ~NoDescriptors() { restore(); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;
  void free_one() { taken_.pop_back(); }

 private:
  void restore() const { static_cast<void>(setrlimit(RLIMIT_NOFILE, &before_)); }

  static constexpr rlim_t kFew = 128;
  rlimit before_{};
  std::vector<core::UniqueFd> taken_;
};

/// The time that this process has taken from the cores. A loop that rests takes little of it.
inline std::chrono::nanoseconds cpu_time() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace rueda::test
