// Files that a user names by mistake or a stranger has planted, and a machine without /proc: hvdrun says so at once.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/launcher/hvdrun_process.h"
#include "tests/support/temporary_folder.h"

using namespace rueda::core::launcher;
using Catch::Matchers::Contains;
using rueda::test::TemporaryFolder;
using rueda::test::text_of;

namespace {

void expect_refusal(const std::vector<std::string>& arguments, int exit_code, const std::string& sentence) {
  HvdrunProcess run(arguments);
  CHECK(run.wait() == exit_code);
  CHECK_THAT(run.err(), Contains(sentence));
}

}  // namespace

TEST_CASE("a config file or hostfile is a regular file of at most 16 MiB") {
  const TemporaryFolder folder;
  const std::string pipe = folder.file("pipe"), large = folder.file("large");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  std::ofstream(large) << "#";
  std::filesystem::resize_file(large, (16 << 20) + 1);
  for (const char* flag : {"config-file", "hostfile"}) {
    const std::string what = flag == std::string("hostfile") ? "hostfile " : "config file ";
    const auto expect = [&](const std::string& path, const std::string& why) {
      expect_refusal({"--" + std::string(flag), path, "true"}, 2, what + path + " cannot be read: " + why);
    };
    expect("/dev/zero", "it is not a regular file");
    expect(pipe, "it is not a regular file");
    expect(large, "it has more than 16 MiB");
  }
}

TEST_CASE("a FIFO that no process reads under the name of a rank's output is an error before the job") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("rank.1"));
  REQUIRE(mkfifo(folder.file("rank.1/stderr").c_str(), 0600) == 0);
  expect_refusal({"-np", "2", "--output-filename", folder.path(), "true"}, 1,
                 "a rank's output cannot be written to " + folder.file("rank.1/stderr") + ": it is a FIFO");
}

TEST_CASE("a link of another user under the name of a rank's output, or of its folder, is not followed") {
  for (const std::string name : {"rank.0/stdout", "rank.0"}) {
    const TemporaryFolder folder, precious;
    std::ofstream(precious.file("stdout")) << "kept";
    if (name != "rank.0") std::filesystem::create_directory(folder.file("rank.0"));
    std::filesystem::create_symlink(name == "rank.0" ? precious.path() : precious.file("stdout"), folder.file(name));
    if (lchown(folder.file(name).c_str(), 54321, 54321) != 0) {
      WARN("not tested: making a link of another user needs root");
      return;
    }
    expect_refusal({"-np", "1", "--output-filename", folder.path(), "echo", "lost"}, 1,
                   folder.file(name) + ": this name is a symbolic link of user 54321");
    CHECK(text_of(precious.file("stdout")) == "kept");
  }
}

TEST_CASE("without /proc hvdrun says what it needs") {
  if (geteuid() != 0) {
    WARN("not tested: hiding /proc needs root");
    return;
  }
  HvdrunProcess run({"-np", "1", "true"},
                    {"unshare", "-m", "sh", "-c", "mount -t tmpfs none /proc && exec \"$@\"", "without-proc"});
  CHECK(run.wait() == 1);
  CHECK_THAT(run.err(), Contains("cannot start the agent: /proc/self/exe is not there; hvdrun needs /proc"));
}
