// Runs the commands of the guide's pages about machines and clusters as they are written there. ./train is
// hello_allreduce, in a folder that all hosts share.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/namespaces.h"
#include "tests/support/slurmlab.h"
#include "tests/support/temporary_folder.h"

using rueda::test::CommandResult;
using rueda::test::NetLab;
using rueda::test::SlurmLab;
using rueda::test::TemporaryFolder;
using Words = std::vector<std::string>;

namespace {

struct Block {
  std::string language, text;
};

/// Returns the code blocks of a page.
std::vector<Block> blocks_of(const std::string& page) {
  std::ifstream file(std::string(RUEDA_TEST_GUIDE) + "/" + page);
  std::vector<Block> blocks;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("```")) {
      if (inside) blocks.back().text += line + "\n";
    } else if ((inside = !inside)) {
      blocks.push_back({line.substr(3), {}});
    }
  }
  REQUIRE_FALSE(blocks.empty());
  return blocks;
}

/// A folder with a program ./train, removed at the end.
class Folder {
 public:
  Folder() {
    write("train", "#!/bin/sh\nexec " RUEDA_TEST_BIN "/hello_allreduce\n");
    REQUIRE(::chmod(folder_.file("train").c_str(), 0755) == 0);
  }
  /// Writes a block into a file if its first line is the file's name: "# hosts.txt".
  void take_file(const std::string& text) const {
    std::smatch name;
    const std::string first = text.substr(0, text.find('\n'));
    if (std::regex_match(first, name, std::regex("# ([a-z]+\\.(txt|yaml))"))) {
      write(name[1].str(), std::regex_replace(text, std::regex("me@"), "root@"));
    }
  }
  /// Returns `script` for a shell, to run in this folder with the build's programs in PATH.
  std::string in_here(const std::string& script) const {
    return "cd " + folder_.path() + "; export PATH=" RUEDA_TEST_BIN ":$PATH; " + script;
  }

 private:
  void write(const std::string& name, const std::string& text) const { std::ofstream(folder_.file(name)) << text; }
  TemporaryFolder folder_;
};

/// Checks that the job succeeded and each rank printed the sum of all ranks.
void check_sums(const CommandResult& run, const std::string& script, size_t ranks) {
  INFO(script << "\n" << run.out << run.err);
  CHECK(run.exit_code == 0);
  const std::regex sum("rank [0-9]+ of " + std::to_string(ranks) + ": the ranks add up to " +
                       std::to_string(ranks * (ranks - 1) / 2));
  CHECK(std::distance(std::sregex_iterator(run.out.begin(), run.out.end(), sum), std::sregex_iterator()) ==
        static_cast<long>(ranks));
}

size_t ranks_of(const std::string& script, size_t slots) {
  std::smatch found;
  return std::regex_search(script, found, std::regex("-np ([0-9]+)")) ? std::stoul(found[1].str()) : slots;
}

/// Runs a page's commands on two hosts with four slots each. Returns how many it ran.
size_t run_page(const std::string& page, const NetLab& lab) {
  const Folder folder;
  size_t jobs = 0;
  for (const Block& block : blocks_of(page)) {
    folder.take_file(block.text);
    if (block.language != "sh") continue;
    for (size_t begin = 0, end; (end = block.text.find('\n', begin)) != std::string::npos; begin = end + 1) {
      // The page's network becomes the lab's.
      const std::string line =
          std::regex_replace(block.text.substr(begin, end - begin), std::regex("10\\.1\\.0\\.0/16"), "10.77.0.0/16");
      REQUIRE(line.starts_with("hvdrun "));
      Words words = lab.on(0);
      words.insert(words.end(), {"sh", "-ec", folder.in_here(line)});
      check_sums(rueda::test::run_command(words), line, ranks_of(line, 8));
      ++jobs;
    }
  }
  return jobs;
}

}  // namespace

TEST_CASE("the guide's commands for one machine run as written") {
  const Folder folder;
  size_t jobs = 0;
  for (const Block& block : blocks_of("on-a-laptop.md")) {
    if (block.language != "sh") continue;
    const CommandResult run = rueda::test::run_command({"sh", "-ec", folder.in_here(block.text)});
    if (block.text.find("./train") == std::string::npos) {
      INFO(block.text << run.out << run.err);
      CHECK(run.exit_code == 0);
    } else {
      check_sums(run, block.text, ranks_of(block.text, 2));
    }
    ++jobs;
  }
  CHECK(jobs == 3);
}

TEST_CASE("the guide's commands for a few machines and for choosing a network run as written") {
  NetLab::skip_without();
  const NetLab lab({.hosts = 2, .networks = 2});
  CHECK(run_page("on-a-few-machines.md", lab) == 3);
  CHECK(run_page("choosing-the-network.md", lab) == 3);
}

TEST_CASE("the guide's commands for Slurm run as written") {
  SlurmLab::skip_without();
  SlurmLab slurm(2, 4);
  const Folder folder;
  size_t jobs = 0;
  for (const Block& block : blocks_of("under-slurm.md")) {
    if (block.language != "sh") continue;
    // salloc opens a shell, and the user types the next line there.
    const std::string script =
        std::regex_replace(block.text, std::regex("(salloc [^\n]*)\n([^\n]*)\n"), "$1 --quiet sh -c '$2'");
    Words words = slurm.on_front();
    words.insert(words.end(), {"sh", "-ec", folder.in_here(script)});
    check_sums(rueda::test::run_command(words), script, 8);
    ++jobs;
  }
  CHECK(jobs == 2);
}
