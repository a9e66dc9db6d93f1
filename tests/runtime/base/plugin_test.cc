// What the loader takes and refuses, with real libraries.
#include "runtime/base/plugin.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "runtime/base/build_id.h"

namespace rueda::core {
namespace {

using Catch::Matchers::Contains;

const std::string kFolder = RUEDA_TEST_PLUGINS;

std::string refusal(const std::string& path) {
  static const rueda_host host = bare_host();
  const auto table = open_plugin(path, host);
  REQUIRE_FALSE(table.ok());
  CHECK(table.status().code() == Code::kUnsupported);
  CHECK_THAT(table.status().sentence(), Contains(path));
  return table.status().sentence();
}

TEST_CASE("a plug-in of this build gives its table, the same each time") {
  static const rueda_host host = bare_host();
  const auto table = open_plugin(kFolder + "/test_plugin.so", host);
  INFO(table.status().sentence());
  REQUIRE(table.ok());
  CHECK(table.value()->build_id == std::string(build_id()));
  CHECK(table.value()->name == std::string("test"));
  CHECK(table.value()->algorithm_count == 1);
  CHECK(table.value()->device_count == 1);
  CHECK(open_plugin(kFolder + "/test_plugin.so", host).value() == table.value());
}

TEST_CASE("a plug-in of another build is refused by name of both") {
  CHECK_THAT(refusal(kFolder + "/other_build.so"), Contains("is of build 0.0.0-other") && Contains(build_id()));
}

TEST_CASE("a plug-in of another ABI is refused before anything else of it is read") {
  CHECK_THAT(refusal(kFolder + "/other_abi.so"), Contains("has plug-in ABI " + std::to_string(kPluginAbi + 1) +
                                                          ", this build has " + std::to_string(kPluginAbi)));
}

TEST_CASE("a plug-in whose table has another size is refused") {
  CHECK_THAT(refusal(kFolder + "/other_size.so"),
             Contains("a table of 24 bytes, this build's has " + std::to_string(sizeof(rueda_plugin_table))));
}

TEST_CASE("a plug-in may refuse its host") {
  CHECK_THAT(refusal(kFolder + "/refusing.so"), Contains("refuses to work with this build"));
}

TEST_CASE("a library without rueda_plugin is not a plug-in") {
  CHECK_THAT(refusal(kFolder + "/no_plugin.so"), Contains("has no function rueda_plugin"));
}

TEST_CASE("a file that is no library and a file that is not there are said to be so") {
  CHECK_THAT(refusal(RUEDA_TEST_SOURCE), Contains("cannot be loaded"));
  CHECK_THAT(refusal(kFolder + "/absent.so"), Contains("does not exist"));
}

TEST_CASE("listed plug-ins come in their order, empty paths between colons are none") {
  static const rueda_host host = bare_host();
  const auto found = open_listed_plugins(":" + kFolder + "/absent.so::" + kFolder + "/test_plugin.so:", host);
  REQUIRE(found.size() == 2);
  CHECK_FALSE(found[0].status.ok());
  CHECK(found[0].table == nullptr);
  CHECK(found[1].status.ok());
  CHECK(found[1].table != nullptr);
  CHECK(open_listed_plugins("", host).empty());
}

TEST_CASE("the plug-ins that come with Rueda are looked for by name and missed by none") {
  static const rueda_host host = bare_host();
  const auto found = open_standard_plugins(kFolder, "", host);
  REQUIRE(found.size() == 2);
  CHECK_THAT(found[0].status.sentence(), Contains("librueda_mpi.so does not exist"));
  CHECK_THAT(found[1].status.sentence(), Contains("librueda_cuda.so does not exist"));
}

TEST_CASE("the own folder is that of the program which holds the code") {
  CHECK(own_folder() == std::filesystem::read_symlink("/proc/self/exe").parent_path().string());
}

TEST_CASE("the host's memory is aligned to 64, its clock goes forward, its abort is the epoch's") {
  const rueda_host host = bare_host();
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{64}, size_t{100'000}}) {
    void* memory = host.allocate(bytes);
    CHECK(reinterpret_cast<uintptr_t>(memory) % 64 == 0);
    host.release(memory);
  }
  const int64_t before = host.now_nanoseconds();
  CHECK(host.now_nanoseconds() >= before);
  CHECK(host.find_algorithm(0, "ring") == nullptr);
}

}  // namespace
}  // namespace rueda::core
