#include "benchmarks/rueda_perf/shared_page.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <new>
#include <random>
#include <string>
#include <vector>

#include "benchmarks/rueda_perf/timing.h"
#include "runtime/base/unique_fd.h"
#include "runtime/net/distance.h"

namespace rueda::perf {
namespace {

constexpr int kFutexTrips = 200;
constexpr std::chrono::seconds kFutexBudget{2};

long futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* timeout) {
  return ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, timeout, nullptr, 0);
}

// Sleeps until the word holds `value`; false after the end.
bool sleep_until_holds(std::atomic<uint32_t>& word, uint32_t value, Clock::time_point end) {
  const timespec nap{0, 100'000'000};
  for (;;) {
    const uint32_t seen = word.load();
    if (seen == value) return true;
    if (Clock::now() >= end) return false;
    futex(word, FUTEX_WAIT, seen, &nap);
  }
}

MeetingPage* map_page(int fd) {
  void* const at = ::mmap(nullptr, sizeof(MeetingPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return at == MAP_FAILED ? nullptr : static_cast<MeetingPage*>(at);
}

// 32 bits: they travel in a double.
uint64_t random_magic() { return std::random_device{}() | 1u; }

}  // namespace

RoundTrips Meeting::measure() {
  const auto probe_side = side_ == 0 ? core::ProbeSide::kFirst : core::ProbeSide::kSecond;
  const auto line = core::line_round_trip(own().line, other().line, ++token_, probe_side, core::kThoroughProbe);
  const double futex_us = futex_round_trip();
  return {line ? static_cast<double>(line->count()) : 0, futex_us};
}

double Meeting::futex_round_trip() {
  const Clock::time_point end = Clock::now() + kFutexBudget;
  const uint32_t first = trips_;
  trips_ += kFutexTrips;
  bool met = true;
  std::vector<double> times = time_steps(kFutexTrips, [&](size_t i) {
    const uint32_t value = first + static_cast<uint32_t>(i) + 1;
    if (side_ == 1) met = met && sleep_until_holds(other().futex, value, end);
    own().futex.store(value);
    futex(own().futex, FUTEX_WAKE, 1, nullptr);
    if (side_ == 0) met = met && sleep_until_holds(other().futex, value, end);
  });
  return met ? quantiles(times).p50 : 0;
}

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
    if (fd.valid()) page_ = map_page(fd.get());
  }
  const bool joined = job.rank() > 1 || (page_ != nullptr && static_cast<double>(page_->magic) == address[2]);
  if (!job.all(joined) || job.size() < 2 || job.rank() > 1) return;
  meeting_ = std::make_unique<Meeting>(*page_, job.rank());
}

Neighbours::~Neighbours() {
  if (page_ != nullptr) ::munmap(page_, sizeof *page_);
}

RoundTrips Neighbours::measure() {
  job_.wait_for_all();
  const RoundTrips own = meeting_ ? meeting_->measure() : RoundTrips{};
  double values[2] = {own.line_ns, own.futex_us};
  job_.share(values);
  return {values[0], values[1]};
}

}  // namespace rueda::perf
