// What an elastic job tells about itself once worker and rank have different numbers: worker 1 of four is dead, so
// ranks 0, 1 and 2 of plan 2 are workers 0, 2 and 3. Rank 1, which is worker 2, then withholds an operation.
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "tests/launcher/hvdrun_process.h"
#include "tests/support/temporary_folder.h"

using namespace rueda::core::launcher;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using rueda::core::UniqueFd;
using Json = nlohmann::ordered_json;

namespace {

constexpr uint16_t kPort = 9100;

Json json_of(const std::string& file) {
  std::ifstream stream(file);
  return Json::parse(stream);
}

/// An address of this host that no other test has.
std::string own_address() {
  const int pid = ::getpid();
  return "127." + std::to_string(64 + (pid >> 16) % 128) + "." + std::to_string((pid >> 8) % 256) + "." +
         std::to_string(pid % 256);
}

/// The metrics page of a slot; empty if nobody listens.
std::string metrics_of(int slot) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(kPort + slot));
  REQUIRE(::inet_pton(AF_INET, own_address().c_str(), &address.sin_addr) == 1);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return {};
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
  REQUIRE(::send(fd.get(), request.data(), request.size(), 0) == static_cast<ssize_t>(request.size()));
  std::string page;
  char piece[4096];
  for (ssize_t got = 0; (got = ::recv(fd.get(), piece, sizeof piece, 0)) > 0;)
    page.append(piece, static_cast<size_t>(got));
  return page;
}

/// A job in which worker 2 withholds an operation in plan 2, and all its kinds of diagnosis are on.
class StalledJob {
 public:
  StalledJob() {
    REQUIRE(::mkfifo(gate().c_str(), 0600) == 0);
    gate_ = UniqueFd(::open(gate().c_str(), O_RDWR | O_CLOEXEC));  // for both, so that nobody waits in open
    run_ = std::make_unique<HvdrunProcess>(std::vector<std::string>{
        "-np", "4", "--min-np", "2", "--stall-check-warning-time-seconds", "1", "--metrics-port", std::to_string(kPort),
        "--metrics-address", own_address(), "--timeline-filename", file("trace.json"), "--dump-signal", "SIGUSR2",
        "--dump-file", file("record-{rank}.json"), RUEDA_CPP_RESETTING_RANK, "1", gate()});
  }
  std::string file(const std::string& name) const { return folder_.file(name); }
  HvdrunProcess& run() { return *run_; }
  /// Waits until rank 0 has reported that only rank 1 is missing, and what it said. Returns all of stderr.
  const std::string& await_report() {
    run_->read_errors_until("not by rank 1 (");
    run_->read_errors_until("has nothing in flight; its last was");
    return run_->err();
  }
  /// Worker 2 submits the operation. Expects that the job succeeds.
  void end_well() {
    REQUIRE(::write(gate_.get(), "x", 1) == 1);
    CHECK(run_->wait() == 0);
    INFO(run_->err());
    run_->wait_for_all_to_end();
  }

 private:
  std::string gate() const { return file("gate"); }
  rueda::test::TemporaryFolder folder_;
  UniqueFd gate_;
  std::unique_ptr<HvdrunProcess> run_;
};

/// What hvdrun --dump prints once all three ranks have answered in time.
std::string dump_of(const StalledJob& job, pid_t pid) {
  for (;;) {
    HvdrunProcess dump({"--dump", std::to_string(pid), "--dump-file", job.file("dump.json")});
    REQUIRE(dump.wait() == 0);
    if (dump.out().find("no flight record came from") == std::string::npos) return dump.out();
  }
}

/// The name of a rank's process in a timeline, without the pid, and its arguments beside it.
Json process_in(const Json& events, int rank) {
  for (const Json& event : events) {
    if (event.at("ph") != "M" || event.at("pid") != rank || event.at("name") != "process_name") continue;
    Json args = event.at("args");
    const auto name = args.at("name").get<std::string>();
    args["name"] = name.substr(0, name.find(", pid "));
    return args;
  }
  return {};
}

}  // namespace

TEST_CASE("in an elastic job the stall report, dumps, metrics and timelines name worker, rank and plan") {
  StalledJob job;
  const std::string& report = job.await_report();
  CHECK_THAT(report,
             Contains("rueda warning: stall for ") &&
                 Contains(" s in plan 2: allreduce \"withheld\": submitted by rank 0 (worker 0, host localhost), "
                          "rank 2 (worker 3, host localhost), not by rank 1 (worker 2, host localhost)"));
  const std::string worker_2 = std::to_string(job.run().process_of_worker(2));
  CHECK_THAT(report, Contains("  rank 1 (worker 2, host localhost, pid " + worker_2 + "): has nothing in flight; "));

  const std::string said = dump_of(job, job.run().pid());
  CHECK_THAT(said, StartsWith("first divergence in plan 2: allreduce \"withheld\" (i64, 1 elements) was submitted by "
                              "rank 0 (worker 0), rank 2 (worker 3), not by rank 1 (worker 2); it has waited for "));
  CHECK_THAT(said, Contains("\n  rank 1 (worker 2, host localhost, pid " + worker_2 + ") has nothing of the set in "));
  const Json ranks = json_of(job.file("dump.json")).at("ranks");
  REQUIRE(ranks.size() == 3);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    CHECK(ranks[rank].at("rank") == rank);
    CHECK(ranks[rank].at("plan") == 2);
    CHECK(ranks[rank].at("worker") == (rank == 0 ? 0 : rank + 1));
    CHECK(ranks[rank].at("workers") == Json{0, 2, 3});
  }

  // A worker's port goes with its slot, which is its number here, and stays what it is.
  CHECK_THAT(metrics_of(0), Contains("rueda_tensors_failed_total{rank=\"0\",worker=\"0\",plan=\"2\"} 0\n"));
  CHECK_THAT(metrics_of(2), Contains("rueda_tensors_failed_total{rank=\"1\",worker=\"2\",plan=\"2\"} 0\n"));
  CHECK_THAT(metrics_of(3), Contains("rueda_tensors_failed_total{rank=\"2\",worker=\"3\",plan=\"2\"} 0\n"));
  CHECK_THAT(metrics_of(3), !Contains("{rank=\"2\"}") && !Contains("{rank=\"2\",kind"));

  REQUIRE(::kill(job.run().process_of_worker(2), SIGUSR2) == 0);
  job.run().read_errors_until(job.file("record-1.plan2.json"));
  CHECK_THAT(job.run().err(),
             Contains("worker 2 (rank 1 of plan 2): the flight record is in " + job.file("record-1.plan2.json")));
  const Json record = json_of(job.file("record-1.plan2.json"));
  CHECK(record.at("worker") == 2);
  CHECK(record.at("plan") == 2);
  CHECK(record.at("rank") == 1);
  job.end_well();

  const Json trace = json_of(job.file("trace.plan2.json"));
  for (const auto& [rank, worker] : {std::pair(0, 0), std::pair(1, 2), std::pair(2, 3)}) {
    const std::string name = "worker " + std::to_string(worker) + " (rank " + std::to_string(rank) + " of plan 2)";
    CHECK(process_in(trace, rank) == Json{{"name", name + " (localhost"}, {"worker", worker}, {"plan", 2}});
  }
  // Each plan that ended by a death left the records of its ranks.
  CHECK(json_of(job.file("record-3.json")).at("worker") == 3);
  CHECK(json_of(job.file("record-3.json")).at("plan") == 1);
}
