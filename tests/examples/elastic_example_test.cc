// Runs the elastic loop in C under hvdrun, with a worker that dies, and compares what the others report with a replay
// of their steps in one process. The sums are of whole numbers, so the replay has the same bits.
#include <signal.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <map>
#include <sstream>

#include "tests/launcher/hvdrun_process.h"

using rueda::core::launcher::HvdrunProcess;

namespace {

constexpr int kElasticSteps = 40;

struct ElasticReport {
  std::string weights;
  std::vector<int> sizes;
};

// The weights, as the example prints them, after steps with so many ranks each.
std::string replayed_weights(const std::vector<int>& sizes) {
  std::array<double, 3> weights{}, momentum{};
  for (size_t step = 0; step < sizes.size(); ++step) {
    for (size_t i = 0; i < weights.size(); ++i) {
      double gradient = 0;
      for (int rank = 0; rank < sizes[step]; ++rank) {
        gradient += static_cast<double>((step * (i + 2) + static_cast<size_t>(rank)) % 5);
      }
      momentum[i] = 0.5 * momentum[i] + gradient;
      weights[i] -= 0.25 * momentum[i];
    }
  }
  std::array<char, 128> text{};
  std::snprintf(text.data(), text.size(), " %.17g %.17g %.17g", weights[0], weights[1], weights[2]);
  return text.data();
}

// What the workers of a job report, by their numbers. The job has to succeed.
std::map<int, ElasticReport> reports_of(const std::vector<std::string>& arguments) {
  HvdrunProcess run(arguments);
  const int code = run.wait();
  INFO(run.out() << run.err());
  REQUIRE(code == 0);
  std::map<int, ElasticReport> reports;
  std::istringstream lines(run.out());
  for (std::string line; std::getline(lines, line);) {
    const size_t weights = line.find("weights"), semicolon = line.find("; ranks in each step");
    const size_t worker = line.find("worker ");
    if (worker == std::string::npos || weights == std::string::npos || semicolon == std::string::npos) continue;
    ElasticReport& report = reports[std::stoi(line.substr(worker + 7))];
    report.weights = line.substr(weights + 7, semicolon - weights - 7);
    std::istringstream sizes(line.substr(semicolon + 20));
    for (int size = 0; sizes >> size;) report.sizes.push_back(size);
  }
  run.wait_for_all_to_end();
  return reports;
}

std::vector<std::string> elastic_example(int ranks, const std::string& worker, const std::string& step) {
  return {"-np", std::to_string(ranks), "--min-np", "2", RUEDA_TEST_BIN "/elastic", worker, step};
}

void require_true_weights(const std::map<int, ElasticReport>& reports, int ranks_until_ten) {
  for (const auto& [worker, report] : reports) {
    INFO("worker " << worker);
    REQUIRE(report.sizes.size() == kElasticSteps);
    for (size_t step = 0; step < 10; ++step) CHECK(report.sizes[step] == ranks_until_ten);
    CHECK(report.weights == replayed_weights(report.sizes));
  }
}

}  // namespace

TEST_CASE("the elastic loop in C goes on when a worker dies, with the weights of a replay in one process") {
  for (const int dead : {0, 2}) {
    auto reports = reports_of(elastic_example(4, std::to_string(dead), "10"));
    for (int worker = 0; worker < 4; ++worker) CHECK(reports.count(worker) == (worker == dead ? 0 : 1));
    require_true_weights(reports, 4);  // a new worker in the slot of the dead one may be among them
  }
}

TEST_CASE("the elastic loop in C waits for a new worker and gives it the training") {
  const auto reports = reports_of(elastic_example(2, "1", "10"));
  REQUIRE(reports.size() == 2);
  CHECK(reports.count(0) == 1);
  CHECK(reports.count(2) == 1);  // in the slot of worker 1
  require_true_weights(reports, 2);
  for (const auto& [worker, report] : reports) CHECK(report.sizes == std::vector<int>(kElasticSteps, 2));
}

// Worker 0 begins to form the plan with worker 2, and dies before it is formed.
TEST_CASE("the elastic loop in C does not begin anew if the last worker with the training dies while a plan forms") {
  HvdrunProcess run({"-np", "2", "--min-np", "1", "--max-np", "2", "sh", "-c",
                     "case $RUEDA_WORKER_ID in 1) exec $0 join kill=9;; 0) exec $0 join over join notice reset join "
                     "kill=9;; *) exec " RUEDA_TEST_BIN "/elastic;; esac",
                     RUEDA_LAUNCHER_RANK});
  CHECK(run.wait() != 0);
  INFO(run.out() << run.err());
  CHECK(run.out().find("weights") == std::string::npos);
  CHECK_THAT(run.err(), Catch::Matchers::Contains("no worker is left that holds the job's state"));
  run.wait_for_all_to_end();
}

// hvdrun cannot see that worker 0 has formed a plan with worker 2, and has given it nothing.
TEST_CASE("the elastic loop in C says so if the last worker with the training dies before it gives it to a new one") {
  HvdrunProcess run({"-np", "2", "--min-np", "1", "--max-np", "2", "sh", "-c",
                     "case $RUEDA_WORKER_ID in 0|1) exec $0;; *) exec " RUEDA_TEST_BIN "/elastic;; esac",
                     RUEDA_MEETING_HOLDER});
  run.read_until("[0]<stdout>:has met the new worker");
  REQUIRE(kill(run.process_of_worker(0), SIGKILL) == 0);
  CHECK(run.wait() != 0);
  INFO(run.out() << run.err());
  CHECK(run.out().find("weights") == std::string::npos);
  CHECK_THAT(run.err(), Catch::Matchers::Contains("[2]<stderr>:no worker is left that has the training: the last one "
                                                  "died before it could give it to the new workers"));
  CHECK_THAT(run.err(), Catch::Matchers::Contains("no worker is left that holds the job's state"));
  run.wait_for_all_to_end();
}

TEST_CASE("the elastic loop in C trains in a job that is not elastic, too, and there a death ends it with a sentence") {
  const auto reports = reports_of({"-np", "2", RUEDA_TEST_BIN "/elastic"});
  REQUIRE(reports.size() == 2);
  require_true_weights(reports, 2);
  HvdrunProcess run({"-np", "2", RUEDA_TEST_BIN "/elastic", "-1", "10"});  // what rueda_worker_id returns there
  CHECK(run.wait() != 0);
  CHECK_THAT(run.err(), Catch::Matchers::Contains("hvdrun: ") && Catch::Matchers::Contains("killed by signal 9"));
}
