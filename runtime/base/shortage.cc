// The kernel says that a table is full and not which one. This file looks at the limits that apply to the process:
// getrlimit(2) for its own, the control group's files for those of its container, /proc/sys for the machine's.
#include "runtime/base/shortage.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <boost/system/system_error.hpp>
#include <cerrno>
#include <new>
#include <optional>
#include <system_error>

#include "runtime/base/control_groups.h"

namespace rueda::core {
namespace {

constexpr uint64_t kBytesPerKiB = 1024;

/// A number, and no text if there is no limit.
std::optional<uint64_t> own_limit(__rlimit_resource resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

thread_local uint64_t times_told = 0;

std::string open_files() {
  ++times_told;
  const auto limit = own_limit(RLIMIT_NOFILE);
  return limit ? fmt::format("; this process may open {} (ulimit -n)", *limit) : "";
}

std::string open_files_of_machine() {
  ++times_told;
  const auto limit = read_number("/proc/sys/fs/file-max");
  return limit ? fmt::format("; this machine may open {} (sysctl fs.file-max)", *limit) : "";
}

std::string address_space() {
  std::string text;
  if (const auto limit = own_limit(RLIMIT_AS)) {
    text += fmt::format("; this process may have {} KiB of address space (ulimit -v)", *limit / kBytesPerKiB);
  }
  if (const auto limit = own_limit(RLIMIT_DATA)) {
    text += fmt::format("; this process may have {} KiB of data (ulimit -d)", *limit / kBytesPerKiB);
  }
  return text;
}

/// Names each control group that has no process or thread left to give, with its limit.
std::string control_group_processes() {
  std::string text;
  for (const ControlGroup& group : control_groups("pids")) {
    const auto limit = read_number(group.folder + "/pids.max");
    const auto held = read_number(group.folder + "/pids.current");
    if (!limit || !held || *held < *limit) continue;
    text += fmt::format("; the control group \"{}\" may have {} processes and threads (pids.max)",
                        group.path.empty() ? "/" : group.path, *limit);
  }
  return text;
}

std::string processes() {
  std::string text = control_group_processes();
  if (const auto limit = own_limit(RLIMIT_NPROC)) {
    text += fmt::format("; this user may have {} processes and threads (ulimit -u)", *limit);
  }
  return text;
}

/// Made while there is memory.
const Status kOutOfMemory(Code::kSystem, "out of memory");

/// What is behind an errno, if it is a limit.
std::string limit_behind(int error) {
  switch (error) {
    case EMFILE: return open_files();
    case ENFILE: return open_files_of_machine();
    case ENOMEM: return address_space();
    default: return {};
  }
}

}  // namespace

std::string reason_of(int error) { return std::generic_category().message(error) + limit_behind(error); }

std::string reason_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "out of memory" + address_space();
  if (const auto* own = dynamic_cast<const std::system_error*>(&error)) {
    const int value = own->code().value();
    return own->code().message() + limit_behind(value) + (value == EAGAIN ? processes() + address_space() : "");
  }
  if (const auto* other = dynamic_cast<const boost::system::system_error*>(&error)) {
    return other->code().message() + limit_behind(other->code().value());
  }
  return error.what();
}

Status failure_of(const std::exception& error) noexcept {
  try {
    return {Code::kSystem, reason_of(error)};
  } catch (const std::exception&) {
    return kOutOfMemory;
  }
}

std::string no_thread_reason() { return std::generic_category().message(EAGAIN) + processes() + address_space(); }

uint64_t shortages_told() { return times_told; }

}  // namespace rueda::core
