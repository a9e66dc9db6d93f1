// What may lie under the name of an output: nothing, a file, a link, a FIFO.
#include "runtime/base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temporary_folder.h"

namespace rueda::core {
namespace {

using Catch::Matchers::Contains;
using test::text_of;

constexpr uid_t kStranger = 54321;

void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

void write_over(const std::string& path, const std::string& text) {
  const auto file = open_output("the report", path);
  REQUIRE(file.ok());
  CHECK(write_all(file.value().get(), text));
}

TEST_CASE("an output replaces a longer text, and goes where an own link leads") {
  const test::TemporaryFolder folder;
  put(folder.file("far"), "a long text");
  write_over(folder.file("far"), "short");
  CHECK(text_of(folder.file("far")) == "short");
  std::filesystem::create_symlink("far", folder.file("link"));
  write_over(folder.file("link"), "linked");
  CHECK(text_of(folder.file("far")) == "linked");
  CHECK(std::filesystem::is_symlink(folder.file("link")));
}

TEST_CASE("a FIFO that no process reads is an error at once, and one with a reader is an output") {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("pipe");
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  const auto refused = open_output("the report", path);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().sentence() ==
        "the report cannot be written to " + path + ": it is a FIFO or device that no process reads");
  const UniqueFd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  write_over(path, "text");
  char text[5] = {};
  CHECK(::read(reader.get(), text, 4) == 4);
  CHECK(std::string(text) == "text");
}

TEST_CASE("a link that another user has planted is not followed") {
  const test::TemporaryFolder folder;
  put(folder.file("precious"), "kept");
  const std::string planted = folder.file("planted");
  std::filesystem::create_symlink("precious", planted);
  if (::lchown(planted.c_str(), kStranger, kStranger) != 0) {
    WARN("not tested: making a link of another user needs root");
    return;
  }
  const auto refused = open_output("the report", planted);
  REQUIRE_FALSE(refused.ok());
  CHECK_THAT(refused.status().sentence(), Contains(planted + ": this name is a symbolic link of user 54321"));
  CHECK(text_of(folder.file("precious")) == "kept");
}

TEST_CASE("a file that is made anew takes the place of a file or a link, and not of a folder") {
  const test::TemporaryFolder folder;
  put(folder.file("precious"), "kept");
  std::filesystem::create_symlink("precious", folder.file("link"));
  put(folder.file("left"), "of an earlier run");
  for (const char* name : {"link", "left", "new"}) {
    const auto file = make_output("the report", folder.file(name));
    REQUIRE(file.ok());
    CHECK(write_all(file.value().get(), "new"));
    CHECK(text_of(folder.file(name)) == "new");
    CHECK_FALSE(std::filesystem::is_symlink(folder.file(name)));
  }
  CHECK(text_of(folder.file("precious")) == "kept");
  CHECK_THAT(make_output("the report", folder.path()).status().sentence(),
             Contains(folder.path() + ": Is a directory"));
  CHECK_THAT(make_output("the report", "/no/such/file").status().sentence(), Contains("No such file or directory"));
}

}  // namespace
}  // namespace rueda::core
