// Which ranks count towards a limit, and what the sentence gives.
#include "runtime/rendezvous/memory_budget.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/support/temporary_folder.h"

namespace rueda::core {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST_CASE("only the ranks of the limited group count, and one that cannot be seen does not") {
  const test::TemporaryFolder folder;
  const std::string& root = folder.path();
  const auto write = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  };
  write("/proc/self/mountinfo", "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  write("/proc/11/cgroup", "0::/job/one\n");
  write("/proc/12/cgroup", "0::/elsewhere\n");
  const std::vector<int64_t> neighbours = {11, 12, 13};
  const auto check = [&](uint64_t left) {
    const std::vector<MemoryLimit> limits = {{"/job", 100 * kMiB, left}};
    return check_budget(limits, 10 * kMiB, neighbours, root);
  };
  CHECK(check(20 * kMiB).ok());
  CHECK(check(40 * kMiB).ok());
  const Status refused = check(20 * kMiB - 1);
  CHECK(refused.code() == Code::kSystem);
  CHECK(refused.sentence() ==
        "the memory limit of control group /job is 100.0 MiB, 20.0 MiB are left, and 2 ranks in it need 10.0 MiB each");
}

TEST_CASE("no limit refuses nothing, and one rank is named as one") {
  CHECK(check_budget({}, size_t{1} << 40, {1, 2}).ok());
  const std::vector<MemoryLimit> limits = {{"", 5 * kMiB, kMiB}};
  CHECK(check_budget(limits, 2 * kMiB, {}).sentence() ==
        "the memory limit of control group / is 5.0 MiB, 1.0 MiB are left, and 1 rank in it needs 2.0 MiB");
}

}  // namespace
}  // namespace rueda::core
