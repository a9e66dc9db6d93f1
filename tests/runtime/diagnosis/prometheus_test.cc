#include "runtime/diagnosis/prometheus.h"

#include <catch2/catch.hpp>
#include <regex>
#include <sstream>

namespace rueda::core {
namespace {

using Catch::Matchers::Contains;

std::string algorithm_name(uint8_t number) { return "name" + std::to_string(number); }

}  // namespace

TEST_CASE("counters become samples with the rank, and families with one sample for what was counted") {
  Counters counters;
  counters.submitted.add(uint64_t{5});
  counters.kinds[0].tensors.add(uint64_t{3});
  counters.algorithms[2].batches.add(uint64_t{2});
  counters.algorithms[2].time.add(std::chrono::milliseconds(1500));
  const std::string page = prometheus_text(counters, prometheus_labels(7, -1, 0), algorithm_name, {{"outputs", 4096}});
  CHECK_THAT(page,
             Contains("# TYPE rueda_tensors_submitted_total counter\nrueda_tensors_submitted_total{rank=\"7\"} 5\n"));
  CHECK_THAT(page, Contains("rueda_tensors_finished_total{rank=\"7\",kind=\"allreduce\"} 3\n"));
  CHECK_THAT(page, Contains("rueda_batches_total{rank=\"7\",number=\"2\",algorithm=\"name2\"} 2\n"));
  CHECK_THAT(page, Contains("rueda_run_seconds_total{rank=\"7\",number=\"2\",algorithm=\"name2\"} 1.5\n"));
  CHECK_THAT(page, !Contains("number=\"3\""));
  CHECK_THAT(page, Contains("# TYPE rueda_memory_bytes gauge\nrueda_memory_bytes{rank=\"7\",of=\"outputs\"} 4096\n"));
}

TEST_CASE("in an elastic job samples have the worker and its plan, too") {
  Counters counters;
  counters.kinds[0].tensors.add(uint64_t{3});
  const std::string page = prometheus_text(counters, prometheus_labels(1, 2, 5), algorithm_name, {});
  CHECK_THAT(page, Contains("rueda_tensors_submitted_total{rank=\"1\",worker=\"2\",plan=\"5\"} 0\n"));
  CHECK_THAT(page, Contains("{rank=\"1\",worker=\"2\",plan=\"5\",kind=\"allreduce\"} 3\n"));
}

TEST_CASE("every line of the page is a comment or a sample of the text format") {
  Counters counters;
  for (auto& kind : counters.kinds) kind.bytes.add(uint64_t{1});
  const std::regex comment("# (HELP|TYPE) rueda_[a-z_]+ .+");
  const std::regex sample("rueda_[a-z_]+\\{rank=\"0\"(,[a-z]+=\"[^\"]*\")*\\} [0-9.e+-]+");
  std::istringstream lines(prometheus_text(counters, prometheus_labels(0, -1, 0), algorithm_name, {}));
  int seen = 0;
  for (std::string line; std::getline(lines, line); ++seen) {
    INFO(line);
    CHECK((std::regex_match(line, comment) || std::regex_match(line, sample)));
  }
  CHECK(seen > 30);
}

}  // namespace rueda::core
