// examples/slurm/elastic.sbatch on a real Slurm (tests/support/slurmlab.h): a node is drained, a node is lost, and a
// job that failed is started again. The workers speak with hvdrun's store as the engine would
// (tests/launcher/elastic_steps.h).
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/support/namespaces.h"
#include "tests/support/slurmlab.h"
#include "tests/support/temporary_folder.h"

using Catch::Matchers::Contains;
using rueda::test::SlurmLab;

namespace {

// A job of examples/slurm/elastic.sbatch on two nodes with two tasks each. Everything that it prints is in a file, and
// what it has already printed can be waited for.
class BatchJob {
 public:
  // `worker`: a line for the shell that is a worker, in which "$0" is the program that takes steps.
  explicit BatchJob(const std::string& worker) : slurm_(2, 2) {
    std::filesystem::create_directories(folder_);
    const std::string variables =
        "SLURM_CONF=/run/slurm.conf PATH=" RUEDA_TEST_BIN ":$PATH ELASTIC_HOSTS=" RUEDA_TEST_SLURM "/hosts.sh";
    number_ = on_front("export " + variables + "; sbatch --parsable --output=" + output() +
                       " " RUEDA_TEST_SLURM "/elastic.sbatch sh -c '" + worker + "' " RUEDA_LAUNCHER_RANK);
    number_.erase(number_.find('\n'));
  }
  ~BatchJob() { std::filesystem::remove_all(folder_); }

  rueda::test::NetLab& lab() { return slurm_.lab(); }
  std::string on_front(const std::string& line) { return lab().shell(0, "export SLURM_CONF=/run/slurm.conf; " + line); }
  void await(int lines, const std::string& pattern) {
    static_cast<void>(lab().run(0, {"bash", "-c",
                                    "grep -q -m " + std::to_string(lines) + " '" + pattern + "' <(tail -n +1 -F " +
                                        output() + " 2>/dev/null)"}));
  }
  // Slurm would start it after two minutes.
  void start_again_now() {
    static_cast<void>(on_front("until scontrol show job " + number_ +
                               " | grep -q JobState=PENDING; do :; done; scontrol update JobId=" + number_ +
                               " StartTime=now"));
  }
  std::string printed() const { return rueda::test::text_of(output()); }

 private:
  std::string output() const { return (folder_ / "output").string(); }
  SlurmLab slurm_;
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("rueda-slurm-" + std::to_string(getpid()));
  std::string number_;
};

}  // namespace

TEST_CASE("workers leave a node that is drained, and the others go on") {
  SlurmLab::skip_without();
  BatchJob job(
      "case $RUEDA_WORKER_ID in 0|1) exec $0 join notice reset join bye;; *) exec $0 join notice reset join;; esac");
  job.await(4, "plan 1 rank . of 4");
  static_cast<void>(job.on_front("scontrol update NodeName=node2 State=DRAIN Reason=test"));
  job.await(2, "plan 2 rank . of 2");
  job.await(2, "is in no further plan: its slot . of host node2 is no longer the job");
  CHECK(job.printed().find("failed") == std::string::npos);
}

TEST_CASE("a job goes on without a node that is lost") {
  SlurmLab::skip_without();
  BatchJob job("exec $0 join over join bye");
  job.await(4, "plan 1 rank . of 4");
  job.lab().kill_host(1);
  job.await(2, "plan . rank . of 2");
  job.await(1, "the job succeeded in plan . without these workers");
  CHECK_THAT(job.printed(), Contains("(host node2") && Contains("lost with its host"));
}

TEST_CASE("a job that failed is started again by its script") {
  SlurmLab::skip_without();
  BatchJob job("test $SLURM_RESTART_COUNT || exit 7; echo started again; exec $0 join bye");
  job.await(1, "hvdrun ended with code 7; job . goes back into the queue");
  job.start_again_now();
  job.await(4, "started again");
  job.await(4, "plan 1 rank . of 4");
  CHECK_THAT(job.printed(), Contains("failed: exited with code 7"));
}
