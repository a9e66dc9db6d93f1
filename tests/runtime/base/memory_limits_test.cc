// Memory limits read from folders that look as the kernel shows them, for both versions of control groups, and for a
// container. A job under a real group is in tests/bindings/c_api_refused_memory_test.cc.
#include "runtime/base/memory_limits.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/base/control_groups.h"
#include "tests/support/temporary_folder.h"

namespace rueda::core {
namespace {

class Machine {
 public:
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root() + path).parent_path());
    std::ofstream(root() + path) << text;
  }
  void second_version(const std::string& group, const std::string& limit, const std::string& usage) const {
    const std::string folder = "/sys/fs/cgroup" + group;
    write(folder + "/memory.max", limit + "\n");
    write(folder + "/memory.current", usage + "\n");
    write(folder + "/memory.stat", "anon 100\nfile 90\ninactive_file 30\nactive_file 40\n");
  }
  std::string root() const { return folder_.path(); }

 private:
  test::TemporaryFolder folder_;
};

constexpr const char* kMountTwo = "41 31 0:38 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw\n";

TEST_CASE("version 2: the own group and those above have limits, and cached files count as left") {
  const Machine machine;
  machine.write("/proc/self/cgroup", "0::/job/rank\n");
  machine.write("/proc/self/mountinfo", std::string("23 1 0:1 / / rw - ext4 /dev/vda rw\n") + kMountTwo);
  machine.second_version("/job/rank", "max", "700");
  machine.second_version("/job", "1000", "800");
  const auto limits = memory_limits(machine.root());
  REQUIRE(limits.size() == 1);
  CHECK(limits[0].group == "/job");
  CHECK(limits[0].limit_bytes == 1000);
  CHECK(limits[0].left_bytes == 1000 - (800 - 70));
}

TEST_CASE("version 2: a group past its limit has nothing left, and every limit is told, the own one first") {
  const Machine machine;
  machine.write("/proc/self/cgroup", "0::/job/rank\n");
  machine.write("/proc/self/mountinfo", kMountTwo);
  machine.second_version("/job/rank", "100", "300");
  machine.second_version("/job", "5000", "0");
  const auto limits = memory_limits(machine.root());
  REQUIRE(limits.size() == 2);
  CHECK(limits[0].group == "/job/rank");
  CHECK(limits[0].left_bytes == 0);
  CHECK(limits[1].left_bytes == 5000);
}

TEST_CASE("version 1 beside version 2: the hierarchy with the memory controller counts") {
  const Machine machine;
  machine.write("/proc/self/cgroup", "9:name=systemd:/x\n4:cpu,memory:/a\n0::/other\n");
  machine.write("/proc/self/mountinfo",
                "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,cpu,memory\n" +
                    std::string("41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"));
  machine.write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "4096\n");
  machine.write("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1024\n");
  machine.write("/sys/fs/cgroup/memory/a/memory.stat",
                "inactive_file 1\ntotal_inactive_file 200\ntotal_active_file 4\n");
  machine.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  machine.write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "77\n");
  const auto limits = memory_limits(machine.root());
  REQUIRE(limits.size() == 1);
  CHECK(limits[0].group == "/a");
  CHECK(limits[0].left_bytes == 4096 - (1024 - 204));
}

TEST_CASE("a container that sees its own group as the top finds its limit there") {
  const Machine machine;
  machine.write("/proc/self/cgroup", "0::/docker/abc\n");
  machine.write("/proc/self/mountinfo", "41 31 0:38 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  machine.second_version("", "2000", "70");
  const auto limits = memory_limits(machine.root());
  REQUIRE(limits.size() == 1);
  CHECK(limits[0].group.empty());
  CHECK(limits[0].left_bytes == 2000);
}

TEST_CASE("without /proc, without a hierarchy and without limits there are none") {
  const Machine machine;
  CHECK(memory_limits(machine.root()).empty());
  CHECK_FALSE(memory_group(1, machine.root()));
  machine.write("/proc/self/cgroup", "0::/job\n");
  CHECK(memory_limits(machine.root()).empty());
  machine.write("/proc/self/mountinfo", kMountTwo);
  CHECK(memory_limits(machine.root()).empty());
}

TEST_CASE("another process's group is its path in the same hierarchy") {
  const Machine machine;
  machine.write("/proc/self/mountinfo", kMountTwo);
  machine.write("/proc/77/cgroup", "0::/job/rank\n");
  CHECK(memory_group(77, machine.root()) == "/job/rank");
  CHECK(lies_in("/job/rank", "/job"));
  CHECK(lies_in("/job", "/job"));
  CHECK(lies_in("/job", ""));
  CHECK_FALSE(lies_in("/jobs", "/job"));
  CHECK_FALSE(lies_in("/job", "/job/rank"));
}

}  // namespace
}  // namespace rueda::core
