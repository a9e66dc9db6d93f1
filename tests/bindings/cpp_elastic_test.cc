// What elastic jobs add to the C++ binding, in jobs that are not elastic: there an abort works and a reset says what to
// do.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "rueda.hpp"
#include "tests/bindings/cpp_ranks.h"

namespace rueda::test {
namespace {

/// The code and sentence of the error that `call` throws.
template <typename Call>
std::string thrown(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(error.code_name()) + " " + error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("a job that is not elastic has no plan, and says how to have one") {
  cpp_ranks(2, [](Session& session) {
    const Membership where = session.membership();
    expect(where.plan == 0 && where.rank == session.rank() && where.size == 2, "a plan");
    expect(!where.pending() && !where.holds_state && where.notices == 0, "a pending plan");
    const std::string advice = "this job is not elastic; start it with hvdrun --min-np N";
    expect(thrown([&] { session.reset(); }) == "UNSUPPORTED rueda_reset: " + advice, "reset");
    expect(thrown([&] { session.worker_id(); }) == "UNSUPPORTED rueda_worker_id: " + advice, "worker_id");
    int32_t fd = 0;
    expect_code(rueda_membership_fd(session.c_session(), &fd), RUEDA_UNSUPPORTED, "membership_fd");
    expect(fd == -1 && rueda_holds_state(session.c_session(), 0) == -1 && rueda_worker_at(session.c_session(), 0) == -1,
           "an answer beside an error");
    rueda_reset_options options{};
    options.struct_size = sizeof options;
    options.timeout_seconds = -1;
    expect_code(rueda_reset(session.c_session(), &options), RUEDA_INVALID_ARGUMENT, "a negative timeout");
    session.allreduce(std::vector<float>{1}, {.name = "still usable"});
  });
}

TEST_CASE("an abort ends the epoch on all ranks with its reason, and needs one") {
  cpp_ranks(3, [](Session& session) {
    expect(thrown([&] { session.abort(""); }).starts_with("INVALID_ARGUMENT rueda_abort needs a reason"), "no reason");
    std::vector<float> value = {1};
    std::string end;
    if (session.rank() == 2) {
      session.allreduce(value, {.name = "all are here"});
      session.abort("the data is torn");
      end = thrown([&] { session.check_status(); });
      session.abort("a second reason changes nothing");
    } else {
      // The abort may come before this rank has seen the end of the first one.
      end = thrown([&] {
        session.allreduce(value, {.name = "all are here"});
        session.allreduce(value, {.name = "needs rank 2"});
      });
    }
    expect(end.starts_with("PEER_LOST "), end);
    expect(
        end.find("rank 2") != std::string::npos && end.find("ended the epoch: the data is torn") != std::string::npos,
        end);
  });
}

}  // namespace rueda::test
