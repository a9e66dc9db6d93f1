// rueda-perf as a user runs it.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/benchmarks/rueda_perf_run.h"

using json = nlohmann::ordered_json;
using rueda::test::PerfRun;
using rueda::test::run_perf;

namespace {

void expect_sane(const json& entry, const std::string& collective, int ranks) {
  INFO(entry.dump());
  CHECK(entry.at("collective") == collective);
  CHECK(entry.at("ranks") == ranks);
  CHECK(entry.at("correct") == true);
  for (const char* text : {"dtype", "codec", "algorithm"}) CHECK(entry.at(text).is_string());
  const double p50 = entry.at("p50_us"), p99 = entry.at("p99_us"), max = entry.at("max_us");
  CHECK(p50 > 0);
  CHECK(p99 >= p50);
  CHECK(max >= p99);
  const double algbw = entry.at("algbw_GBps"), bytes = entry.at("bytes");
  CHECK(algbw == Approx(bytes / p50 * 1e-3));
  const std::vector<std::string> one_way = {"broadcast", "reduce", "send", "barrier"};
  const bool whole = std::count(one_way.begin(), one_way.end(), collective) != 0;
  const double factor = whole ? 1 : (collective == "allreduce" ? 2.0 : 1.0) * (ranks - 1) / ranks;
  CHECK(entry.at("busbw_GBps").get<double>() == Approx(algbw * factor));
  CHECK(entry.at("line_ns").size() == 2);
  CHECK(entry.at("line_ns")[0].is_number());
  CHECK(entry.at("iterations").get<int>() >= 1);
}

json results_of(const PerfRun& run) {
  INFO(run.output);
  REQUIRE(run.exit_code == 0);
  REQUIRE(run.json.is_object());
  return run.json.at("results");
}

}  // namespace

TEST_CASE("a sweep has an entry for each size, in place and out of place, with every field") {
  const json entries = results_of(run_perf(2, "allreduce --min 8 --max 128K --step-factor 128 --seconds 0.02"));
  REQUIRE(entries.size() == 6);
  for (size_t i = 0; i < entries.size(); ++i) {
    expect_sane(entries[i], "allreduce", 2);
    CHECK(entries[i].at("bytes") == (i < 2 ? 8 : i < 4 ? 1024 : 131072));
    CHECK(entries[i].at("in_place") == (i % 2 == 0));
    CHECK(entries[i].at("dtype") == "f32");
    CHECK(entries[i].at("algorithm") == (i < 4 ? "shm_one_shot" : "shm_two_shot"));
  }
}

TEST_CASE("every dtype, op, codec and algorithm it is asked for stands in the result") {
  const std::string common = " --bytes 64K --iters 2 --warmup 1 --in-place";
  for (const char* flags : {"--dtype bf16 --op average", "--dtype i32 --op max", "--dtype u8 --op product",
                            "--dtype f64 --codec fp16", "--algorithm ring"}) {
    const json entries = results_of(run_perf(3, std::string("allreduce ") + flags + common));
    REQUIRE(entries.size() == 1);
    expect_sane(entries[0], "allreduce", 3);
    for (const char* field : {"dtype", "codec", "algorithm"}) {
      const std::string value = entries[0].at(field);
      if (std::string(flags).find(std::string("--") + field) != std::string::npos) {
        CHECK(std::string(flags).find(value) != std::string::npos);
      }
    }
    CHECK(entries[0].at("cold") == false);
  }
}

TEST_CASE("buffers that rotate are said to be cold", "[heavy]") {
  const json entries = results_of(run_perf(2, "allreduce --op min --cold --bytes 64K --iters 2 --warmup 1 --in-place"));
  REQUIRE(entries.size() == 1);
  expect_sane(entries[0], "allreduce", 2);
  CHECK(entries[0].at("cold") == true);
}

TEST_CASE("tensors in shared memory are measured where they lie, and each result says which memory it had") {
  for (const std::string collective : {"allreduce", "reducescatter", "allgather", "broadcast"}) {
    const json entries =
        results_of(run_perf(2, collective + " --memory shared --bytes 120K --count 2 --iters 3 --warmup 1"));
    for (const json& entry : entries) {
      expect_sane(entry, collective, 2);
      CHECK(entry.at("memory") == "shared");
      CHECK(entry.at("algorithm") == "shm_shared");
    }
  }
  const json usual = results_of(run_perf(2, "allreduce --bytes 120K --iters 3 --warmup 1 --in-place"));
  CHECK(usual[0].at("memory") == "private");
  const PerfRun alone = run_perf(1, "allreduce --memory shared --bytes 4K --iters 1 --warmup 1 --in-place");
  CHECK(alone.exit_code != 0);
  CHECK_THAT(alone.output, Catch::Contains("--memory shared: rank 0"));
}

TEST_CASE("broadcast and barrier are measured too") {
  for (const std::string collective : {"broadcast", "barrier"}) {
    const json entries = results_of(run_perf(2, collective + " --bytes 4K --iters 3 --warmup 1 --in-place"));
    REQUIRE(entries.size() == 1);
    expect_sane(entries[0], collective, 2);
  }
}

TEST_CASE("collectives of parts are measured out of place") {
  for (const std::string collective : {"reducescatter", "allgather", "alltoall", "gather", "scatter", "send"}) {
    const json entries = results_of(run_perf(3, collective + " --bytes 100K --count 3 --iters 3 --warmup 1"));
    REQUIRE(entries.size() == 1);
    expect_sane(entries[0], collective, 3);
    CHECK(entries[0].at("in_place") == false);
    CHECK(entries[0].at("algorithm") == "shm_" + collective);
  }
}

TEST_CASE("a reduce is measured to its root, in place and out of place") {
  const json entries = results_of(run_perf(3, "reduce --bytes 100K --count 3 --iters 3 --warmup 1"));
  REQUIRE(entries.size() == 2);
  for (const json& entry : entries) {
    expect_sane(entry, "reduce", 3);
    CHECK(entry.at("algorithm") == "shm_reduce");
  }
}

TEST_CASE("a rank that is alone has nobody to send to, and says so") {
  const PerfRun alone = run_perf(0, "send --bytes 8");
  CHECK(alone.exit_code == 1);
  CHECK(alone.output.find("peer 0 is not another member") != std::string::npos);
}

TEST_CASE("one step of ResNet-50's gradients is all 161 of them", "[heavy]") {
  const json entries = results_of(run_perf(2, "allreduce --set resnet50 --iters 1 --warmup 1 --in-place"));
  REQUIRE(entries.size() == 1);
  expect_sane(entries[0], "allreduce", 2);
  CHECK(entries[0].at("bytes") == 4 * 25557032);
  CHECK(entries[0].at("count") == 161);
  CHECK(entries[0].at("set") == "resnet50");
}

TEST_CASE("many tensors at once are one entry, and the memory limit stands beside it", "[heavy]") {
  const PerfRun run = run_perf(2, "allreduce --count 1000 --bytes 256 --iters 3 --warmup 1 --limit");
  const json entries = results_of(run);
  REQUIRE(entries.size() == 2);
  for (const json& entry : entries) {
    expect_sane(entry, "allreduce", 2);
    CHECK(entry.at("bytes") == 256000);
    CHECK(entry.at("count") == 1000);
  }
  CHECK(run.json.at("limit_GBps").get<double>() > 0);
  CHECK(run.json.at("limit_GBps").get<double>() == Approx(run.json.at("memory_GBps").get<double>() / 4));
}

TEST_CASE("the idle report has core, wake-ups and memory") {
  const PerfRun run = run_perf(2, "--idle 0.2 --max 1M");
  CHECK(results_of(run).empty());
  CHECK(run.json.at("idle_core_percent").get<double>() >= 0);
  CHECK(run.json.at("wakeups_per_second").get<double>() >= 0);
  CHECK(run.json.at("pss_growth_MiB").get<double>() > 0);
}

TEST_CASE("without hvdrun it is a job of one rank") {
  const json entries = results_of(run_perf(0, "allreduce --bytes 1K --iters 2 --warmup 1 --in-place"));
  REQUIRE(entries.size() == 1);
  expect_sane(entries[0], "allreduce", 1);
}

TEST_CASE("rueda-perf says what is wrong with its flags") {
  const std::pair<const char*, const char*> cases[] = {
      {"carousel", "'carousel' is unknown"},
      {"allreduce --dtype f33", "'f33' is unknown"},
      {"allreduce --min 12 --max 4", "--max: 4 is below --min 12"},
      {"allreduce --min 0", "--min"},
      {"allreduce --bytes -4", "--bytes: \"-4\" is not allowed"},
      {"allreduce --bytes 1P", "--bytes: \"1P\" is not allowed"},
      {"allreduce --bytes 3", "--bytes: 3 bytes are not a multiple of the size of f32"},
      {"allreduce --max 1000000G", "the limit is 2^47"},
      {"allreduce --seconds nan", "--seconds: 'nan' is not"},
      {"allreduce --seconds -1", "--seconds: '-1' is not"},
      {"--idle inf", "--idle: 'inf' is not"},
      {"allreduce --speed 9", "--speed"},
      {"broadcast --set resnet50", "--set"},
      {"barrier --peer mpi", "--peer"},
      {"allreduce --in-place --out-of-place", "--out-of-place"}};
  for (const auto& [flags, words] : cases) {
    const PerfRun run = run_perf(0, flags);
    INFO(flags << ": " << run.output);
    CHECK(run.exit_code == 2);
    CHECK(run.output.find(words) != std::string::npos);
  }
  const PerfRun unknown = run_perf(0, "allreduce --algorithm carousel --bytes 8");
  CHECK(unknown.exit_code == 1);
  CHECK(unknown.output.find("carousel") != std::string::npos);
}

TEST_CASE("the smallest size is one element of a type that has more than 8 bytes") {
  const json entries = results_of(run_perf(0, "allreduce --dtype c128 --max 16 --iters 1 --warmup 1 --in-place"));
  REQUIRE(entries.size() == 1);
  CHECK(entries[0].at("bytes") == 16);
}

TEST_CASE("buffers for which there is no memory are named with their size") {
  const PerfRun run = run_perf(0, "allreduce --bytes 100T --iters 1 --warmup 1");
  INFO(run.output);
  CHECK(run.exit_code == 1);
  CHECK(run.output.find("no memory for buffers of 109951162777600 bytes") != std::string::npos);
}

TEST_CASE("a result that cannot be written is a failure before anything is measured") {
  const PerfRun run = run_perf(0, "allreduce --bytes 8 --iters 1 --warmup 1", "/nowhere/result.json");
  INFO(run.output);
  CHECK(run.exit_code == 1);
  CHECK(run.output.find("cannot write /nowhere/result.json") != std::string::npos);
  CHECK(run.output.find("p50") == std::string::npos);  // known before anything is measured
}
