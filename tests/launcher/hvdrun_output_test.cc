// Output, input and environment of ranks on one host, and --check-build.

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "tests/launcher/hvdrun_process.h"
#include "tests/support/temporary_folder.h"

using namespace rueda::core::launcher;
using Lines = std::vector<std::string>;

TEST_CASE("each rank's lines arrive whole and in order, however they are written") {
  HvdrunProcess run(
      {"-np", "2", "sh", "-c",
       "for i in 1 2 3 4 5 6 7 8 9; do printf 'a%s' $i; printf ' of %s\\n' $RUEDA_RANK; echo e$i >&2; done;"
       "printf 'the end'"});
  CHECK(run.wait() == 0);
  for (const std::string rank : {"0", "1"}) {
    Lines out, err;
    for (int i = 1; i <= 9; ++i) {
      out.push_back("a" + std::to_string(i) + " of " + rank);
      err.push_back("e" + std::to_string(i));
    }
    out.push_back("the end");
    CHECK(HvdrunProcess::lines(run.out(), "[" + rank + "]<stdout>:") == out);
    CHECK(HvdrunProcess::lines(run.err(), "[" + rank + "]<stderr>:") == err);
  }
  CHECK(HvdrunProcess::lines(run.out(), "").size() == 20);
  CHECK(HvdrunProcess::lines(run.err(), "").size() == 18);
}

TEST_CASE("a line of 200 KB arrives complete, in marked pieces") {
  HvdrunProcess run({"-np", "1", "sh", "-c", "head -c 200000 /dev/zero | tr '\\0' x; echo; echo after"});
  CHECK(run.wait() == 0);
  size_t letters = 0;
  const auto lines = HvdrunProcess::lines(run.out(), "[0]<stdout>:");
  REQUIRE(lines.size() == 5);
  for (const auto& line : lines) letters += static_cast<size_t>(std::count(line.begin(), line.end(), 'x'));
  CHECK(letters == 200000);
  CHECK(lines[0].ends_with("x [continues]"));
  CHECK(lines[1].starts_with("[continued] x"));
  CHECK(lines[3].ends_with("x"));
  CHECK(lines[4] == "after");
}

TEST_CASE("large output of four ranks arrives up to the last line") {
  constexpr int kLines = 40000;
  HvdrunProcess run({"-np", "4", "sh", "-c", "seq -f 'number %.0f of some length' " + std::to_string(kLines)});
  CHECK(run.wait() == 0);
  for (int rank = 0; rank < 4; ++rank) {
    const auto lines = HvdrunProcess::lines(run.out(), "[" + std::to_string(rank) + "]<stdout>:");
    REQUIRE(lines.size() == kLines);
    for (int i = 0; i < kLines; ++i) {
      const auto expected = "number " + std::to_string(i + 1) + " of some length";
      if (lines[static_cast<size_t>(i)] != expected)
        FAIL("rank " << rank << ", line " << i << ": " << lines[static_cast<size_t>(i)]);
    }
  }
}

TEST_CASE("unread output blocks the ranks but not the end of the job") {
  HvdrunProcess run({"-np", "2", "--grace-seconds", "1", "sh", "-c", "test $RUEDA_RANK = 1 && exit 7; exec yes"});
  run.read_until("[0]<stdout>:y");
  HvdrunProcess::wait_for_end_of(run.process_named("yes"));
  CHECK(run.wait() == 7);
}

TEST_CASE("every byte passes unchanged, and time stamps come before the prefix") {
  HvdrunProcess run({"-np", "1", "-prefix-timestamp", "sh", "-c", "printf 'a\\000b\\377c\\n'"});
  CHECK(run.wait() == 0);
  const std::string text("[0]<stdout>:a\0b\377c\n", 18);
  REQUIRE(run.out().size() == 23 + text.size());
  CHECK(run.out().substr(23) == text);
  CHECK(run.out()[4] == '-');
  CHECK(run.out()[10] == 'T');
}

TEST_CASE("files hold each rank's output unchanged") {
  const auto folder = std::filesystem::temp_directory_path() / ("rueda-hvdrun-test-" + std::to_string(getpid()));
  HvdrunProcess run({"-np", "2", "--output-filename", folder.string(), "sh", "-c",
                     "echo out $RUEDA_RANK; printf 'err %s' $RUEDA_RANK >&2"});
  CHECK(run.wait() == 0);
  for (const std::string rank : {"0", "1"}) {
    CHECK(rueda::test::text_of(folder / ("rank." + rank) / "stdout") == "out " + rank + "\n");
    CHECK(rueda::test::text_of(folder / ("rank." + rank) / "stderr") == "err " + rank);
  }
  CHECK(HvdrunProcess::lines(run.out(), "[1]<stdout>:") == Lines{"out 1"});
  std::filesystem::remove_all(folder);

  HvdrunProcess refused({"-np", "1", "--output-filename", "/proc/none", "true"});
  CHECK(refused.wait() == 1);
  CHECK(refused.err().find("hvdrun: cannot make folder /proc/none/rank.0") == 0);
}

// The lines hold mpirun's own prefix too.
TEST_CASE("mpirun writes the files of ranks at the same paths as hvdrun") {
  if (std::system("mpirun --version 2>&1 | grep -q 'Open MPI'") != 0) {
    WARN("there is no mpirun of Open MPI");
    return;
  }
  const auto folder = std::filesystem::temp_directory_path() / ("rueda-mpirun-test-" + std::to_string(getpid()));
  HvdrunProcess run({"--mpi", "-H", "localhost:2", "--output-filename", folder.string(), "sh", "-c",
                     "echo out $OMPI_COMM_WORLD_RANK; printf 'err %s' $OMPI_COMM_WORLD_RANK >&2"});
  INFO(run.err());
  CHECK(run.wait() == 0);
  for (const std::string rank : {"0", "1"}) {
    CHECK(rueda::test::text_of(folder / ("rank." + rank) / "stdout") == "[1," + rank + "]<stdout>:out " + rank + "\n");
    CHECK(rueda::test::text_of(folder / ("rank." + rank) / "stderr") == "[1," + rank + "]<stderr>:err " + rank);
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("rank 0 reads hvdrun's stdin to its end, and other ranks read nothing") {
  HvdrunProcess run({"-np", "2", "cat"});
  run.write_input("first\n");
  run.read_until("[0]<stdout>:first");
  run.write_input("second\n");
  run.close_input();
  CHECK(run.wait() == 0);
  CHECK(HvdrunProcess::lines(run.out(), "[0]<stdout>:") == Lines{"first", "second"});
  CHECK(HvdrunProcess::lines(run.out(), "[1]<stdout>:").empty());
}

TEST_CASE("a rank gets its rank and sizes under our names and Horovod's, and the settings given as flags") {
  HvdrunProcess run({"-np", "3", "-H", "localhost:4", "--cache-capacity", "12", "sh", "-c",
                     "echo $RUEDA_RANK $RUEDA_SIZE $RUEDA_LOCAL_RANK $RUEDA_LOCAL_SIZE $RUEDA_CROSS_RANK "
                     "$RUEDA_CROSS_SIZE $HOROVOD_RANK $HOROVOD_SIZE $HOROVOD_LOCAL_RANK $HOROVOD_LOCAL_SIZE "
                     "$HOROVOD_CROSS_RANK $HOROVOD_CROSS_SIZE $RUEDA_HOSTNAME $HOROVOD_HOSTNAME "
                     "$RUEDA_CACHE_CAPACITY; "
                     "test ${OMP_NUM_THREADS:-0} = $(n=$(($(nproc) / 3)); echo $((n > 0 ? n : 1)))"});
  CHECK(run.wait() == 0);
  for (const std::string r : {"0", "1", "2"}) {
    CHECK(HvdrunProcess::lines(run.out(), "[" + r + "]<stdout>:") ==
          Lines{r + " 3 " + r + " 3 0 1 " + r + " 3 " + r + " 3 0 1 localhost localhost 12"});
  }
}

TEST_CASE("flags of horovodrun without a meaning are told once, and the job runs") {
  HvdrunProcess run({"--num-proc", "1", "--gloo", "--cycle-time-ms", "5", "echo", "ran"});
  CHECK(run.wait() == 0);
  CHECK(HvdrunProcess::lines(run.out(), "[0]<stdout>:") == Lines{"ran"});
  const Lines told = HvdrunProcess::lines(run.err(), "hvdrun: flags without a meaning here: ");
  REQUIRE(told.size() == 1);
  CHECK(told.front().find("--cycle-time-ms (operations start at once") != std::string::npos);
}

TEST_CASE("scripts of torch.distributed find their variables: the user's master wins, an outer job's ranks do not") {
  REQUIRE(::setenv("RANK", "7", 1) == 0);
  const std::vector<std::string> job = {"-np", "2", "sh", "-c",
                                        "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR; "
                                        "test $MASTER_PORT -ge 20000 && echo port $MASTER_PORT"};
  HvdrunProcess plain(job);
  CHECK(plain.wait() == 0);
  REQUIRE(::setenv("MASTER_ADDR", "far.away", 1) == 0);
  REQUIRE(::setenv("MASTER_PORT", "29500", 1) == 0);
  HvdrunProcess own(job);
  for (const char* name : {"RANK", "MASTER_ADDR", "MASTER_PORT"}) REQUIRE(::unsetenv(name) == 0);
  CHECK(own.wait() == 0);
  for (const std::string r : {"0", "1"}) {
    const auto lines = HvdrunProcess::lines(plain.out(), "[" + r + "]<stdout>:");
    REQUIRE(lines.size() == 2);
    CHECK(lines[0] == r + " 2 " + r + " 2 127.0.0.1");
    CHECK(HvdrunProcess::lines(own.out(), "[" + r + "]<stdout>:") ==
          Lines{r + " 2 " + r + " 2 far.away", "port 29500"});
  }
}

TEST_CASE("--check-build opens plug-ins as a session would and says why one cannot be used") {
  const std::string good = std::string(RUEDA_TEST_PLUGINS) + "/test_plugin.so";
  const std::string other = std::string(RUEDA_TEST_PLUGINS) + "/other_build.so";
  REQUIRE(::setenv("RUEDA_PLUGINS", (good + ":" + other).c_str(), 1) == 0);
  HvdrunProcess run({"--check-build"});
  REQUIRE(::unsetenv("RUEDA_PLUGINS") == 0);
  CHECK(run.wait() == 0);
  INFO(run.out());
  CHECK(run.out().find("[X] test_plugin.so") != std::string::npos);
  CHECK(run.out().find("[ ] other_build.so") != std::string::npos);
  CHECK(run.out().find("is of build 0.0.0-other") != std::string::npos);
  CHECK(run.out().find("librueda_mpi.so") != std::string::npos);
}

TEST_CASE("--check-build reports a plug-in that hangs or dies, and ends its process") {
  REQUIRE(::setenv("RUEDA_PLUGINS", (std::string(RUEDA_TEST_PLUGINS) + "/stuck.so").c_str(), 1) == 0);
  HvdrunProcess hung({"--check-build", "-H", "localhost:1", "--start-timeout", "1"});
  REQUIRE(::setenv("RUEDA_TEST_DIES", "1", 1) == 0);
  HvdrunProcess dead({"--check-build", "-H", "localhost:1"});
  REQUIRE(::unsetenv("RUEDA_TEST_DIES") == 0);
  REQUIRE(::unsetenv("RUEDA_PLUGINS") == 0);
  CHECK(hung.wait() == 1);
  CHECK(hung.out().empty());
  CHECK(hung.err() == "hvdrun: host localhost did not finish its check within 1 s\n");
  hung.wait_for_all_to_end();
  CHECK(dead.wait() == 1);
  CHECK(dead.out().empty());
  CHECK(dead.err() ==
        "hvdrun: host localhost could not be checked (hvdrun --check-here: killed by signal 9 (Killed))\n");
  dead.wait_for_all_to_end();
}
