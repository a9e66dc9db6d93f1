// What a file may do: be there, be missing, open and then fail, as files of /proc do whose process has ended.
#include "runtime/base/file_text.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "tests/support/temporary_folder.h"

namespace rueda::core {
namespace {

TEST_CASE("the text of a file is whole, with zeros and without a last line's end") {
  const test::TemporaryFolder folder;
  const std::string text = std::string("A=1\0B=2\0", 8) + "\nend";
  std::ofstream(folder.file("some")) << text;
  CHECK(file_text(folder.file("some")) == text);
  CHECK(test::text_of(folder.file("some")) == text);
}

TEST_CASE("a file that cannot be opened or read has an empty text") {
  const test::TemporaryFolder folder;
  // A folder opens, and read(2) answers EISDIR; nothing is mapped at the beginning of this process's memory: EIO.
  for (const std::string& path : {folder.file("none"), folder.path(), std::string("/proc/self/mem")}) {
    INFO(path);
    CHECK(file_text(path).empty());
    CHECK(test::text_of(path).empty());
  }
}

}  // namespace
}  // namespace rueda::core
