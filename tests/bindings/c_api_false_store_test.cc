// Ranks whose store's address belongs to another program. Each is told in time, with the address.
#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <string>

#include "runtime/base/unique_fd.h"
#include "tests/bindings/operations.h"
#include "tests/support/rank_processes.h"

namespace rueda::test {
namespace {

using Catch::Contains;

// Listens and never answers: the kernel accepts connections for it.
class SilentProgram {
 public:
  SilentProgram() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(bind(listener_.get(), any, bytes) == 0);
    REQUIRE(listen(listener_.get(), 64) == 0);
    REQUIRE(getsockname(listener_.get(), any, &bytes) == 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  const std::string& address() const { return address_; }

 private:
  core::UniqueFd listener_;
  std::string address_;
};

}  // namespace

TEST_CASE("rank: tells how its init ended", "[.]") {
  rueda_session* session = nullptr;
  const int32_t code = rueda_init(nullptr, &session);
  rank_report("init " + std::string(rueda_error_name(code)) + " " + rueda_last_error());
}

TEST_CASE("a store that accepts and never answers is a timeout on all ranks, with its address") {
  const SilentProgram program;
  for (const char* insecure : {"0", "1"}) {
    RankProcesses ranks({.size = 2,
                         .body = "rank: tells how its init ended",
                         .variables = {{"RUEDA_STORE", "launcher"},
                                       {"RUEDA_STORE_ADDR", program.address()},
                                       {"RUEDA_INSECURE", insecure},
                                       {"RUEDA_INIT_TIMEOUT_SECONDS", "2"}}});
    for (const RankOutcome& outcome : ranks.finish()) {
      CHECK_THAT(outcome.report("init"), Contains("TIMEOUT store at " + program.address() + " cannot be reached: ") &&
                                             Contains("accepts connections and does not answer"));
    }
  }
}

TEST_CASE("a store's port that another program has is told to all ranks of the host, long before their deadline") {
  const SilentProgram program;
  RankProcesses ranks({.size = 3,
                       .body = "rank: tells how its init ended",
                       .variables = {{"RUEDA_STORE_ADDR", program.address()}, {"RUEDA_INIT_TIMEOUT_SECONDS", "110"}}});
  for (const RankOutcome& outcome : ranks.finish()) {
    CHECK_THAT(outcome.report("init"),
               Contains("SYSTEM rank 0 cannot serve the store at " + program.address() + ": ") &&
                   Contains("Address already in use; free the port"));
  }
}

}  // namespace rueda::test
