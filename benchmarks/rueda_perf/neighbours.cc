// Makes a page that ranks 0 and 1 share. Rank 0 makes a memfd and tells all ranks its pid and descriptor; rank 1 opens
// it under /proc. A magic number in the page shows that it is the same one: on another host the path may lead to a
// stranger's file.
#include "benchmarks/rueda_perf/neighbours.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <new>
#include <random>
#include <string>

#include "runtime/base/unique_fd.h"

namespace rueda::perf {
namespace {

MeetingPage* map_page(int fd) {
  void* const at = ::mmap(nullptr, sizeof(MeetingPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return at == MAP_FAILED ? nullptr : static_cast<MeetingPage*>(at);
}

// 32 bits: they travel in a double.
uint64_t random_magic() { return std::random_device{}() | 1u; }

}  // namespace

Neighbours::Neighbours(const Job& job) : job_(job) {
  core::UniqueFd fd;
  double address[3] = {0, 0, 0};  // pid, descriptor, magic
  if (job.rank() == 0) {
    fd = core::UniqueFd(::memfd_create("rueda-perf", MFD_CLOEXEC));
    if (fd.valid() && ::ftruncate(fd.get(), sizeof(MeetingPage)) == 0) page_ = map_page(fd.get());
    if (page_ != nullptr) {
      new (page_) MeetingPage{.magic = random_magic(), .side = {}};
      address[0] = ::getpid();
      address[1] = fd.get();
      address[2] = static_cast<double>(page_->magic);
    }
  }
  job.share(address);
  if (job.rank() == 1) {
    const std::string path = "/proc/" + std::to_string(static_cast<long>(address[0])) + "/fd/" +
                             std::to_string(static_cast<long>(address[1]));
    fd = core::UniqueFd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    // Fails between users or containers: then there are no round trips, and the report says 0.
    if (fd.valid()) page_ = map_page(fd.get());
  }
  const bool joined = job.rank() > 1 || (page_ != nullptr && static_cast<double>(page_->magic) == address[2]);
  // Either all ranks know that there is a page, or none uses it.
  if (!job.all(joined) || job.size() < 2 || job.rank() > 1 || page_ == nullptr) return;
  meeting_ = std::make_unique<Meeting>(*page_, job.rank());
}

Neighbours::~Neighbours() {
  if (page_ != nullptr) ::munmap(page_, sizeof *page_);
}

RoundTrips Neighbours::measure() {
  job_.wait_for_all();
  double values[2] = {0, 0};
  if (meeting_) {
    values[0] = meeting_->line_ns();
    values[1] = meeting_->futex_us();
  }
  job_.share(values);
  return {values[0], values[1]};
}

}  // namespace rueda::perf
