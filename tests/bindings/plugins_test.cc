// Plug-ins through librueda.so: which are taken and refused, and a row that a setting names.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/bindings/plugin_parts.h"
#include "tests/support/rank_processes.h"

namespace rueda::test {
namespace {

using Catch::Matchers::Contains;

const std::string kFolder = RUEDA_TEST_PLUGINS;

std::string init_failure() {
  const CallbackStore store;
  int32_t code = RUEDA_OK;
  CHECK(join(store, 0, 1, &code) == nullptr);
  CHECK(code == RUEDA_UNSUPPORTED);
  return rueda_last_error();
}

TEST_CASE("a plug-in's row serves what a setting sends to it") {
  const Variables variables(Values{{"RUEDA_PLUGINS", kTestPlugin}, {"RUEDA_ALLREDUCE_ALGORITHM", "test_star"}});
  const size_t count = GENERATE(size_t{0}, size_t{1}, size_t{100'003});
  run_ranks(3, [count](rueda_session* session, int rank) {
    std::vector<float> values = numbers(rank, count);
    expect_code(sum(session, values, "w"), RUEDA_OK, "all-reduce by test_star");
    expect_summed_numbers(values, 3, "test_star");
  });
}

TEST_CASE("a plug-in's row scales as the caller says") {
  const Variables variables(Values{{"RUEDA_PLUGINS", kTestPlugin}, {"RUEDA_ALLREDUCE_ALGORITHM", "test_star"}});
  run_ranks(2, [](rueda_session* session, int rank) {
    std::vector<float> values = {static_cast<float>(rank + 1)};
    rueda_op_options options = named("scaled");
    options.has_scale = 1;
    options.prescale = 4;
    options.postscale = 0.5;
    const CTensor tensor(values, RUEDA_F32);
    expect_code(rueda_allreduce(session, tensor.get(), tensor.get(), RUEDA_SUM, &options), RUEDA_OK, "scaled");
    expect(values[0] == 6.0f, "4 * (1 + 2) / 2 gave " + std::to_string(values[0]));
  });
}

TEST_CASE("what a forced plug-in row cannot serve fails with its name, and the session goes on") {
  const Variables variables(Values{{"RUEDA_PLUGINS", kTestPlugin}, {"RUEDA_ALLREDUCE_ALGORITHM", "test_star"}});
  run_ranks(2, [](rueda_session* session, int) {
    std::vector<double> values = {1};
    const CTensor tensor(values, RUEDA_F64);
    const rueda_op_options options = named("d");
    expect(rueda_allreduce(session, tensor.get(), tensor.get(), RUEDA_SUM, &options) != RUEDA_OK, "f64 was taken");
    expect(std::string(rueda_last_error()).find("test_star") != std::string::npos, rueda_last_error());
    expect_usable(session, "after");
  });
}

TEST_CASE("a plug-in that RUEDA_PLUGINS names and that cannot be loaded fails init") {
  const std::string file = GENERATE("other_build.so", "other_abi.so", "other_size.so", "no_plugin.so", "absent.so");
  const Variables variables(Values{{"RUEDA_PLUGINS", kTestPlugin + ":" + kFolder + "/" + file}});
  CHECK_THAT(init_failure(), Contains("RUEDA_PLUGINS: plug-in " + kFolder + "/" + file));
}

TEST_CASE("a plug-in named twice fails init, because its kinds are taken") {
  const Variables variables(Values{{"RUEDA_PLUGINS", kTestPlugin + ":" + kTestPlugin}});
  CHECK_THAT(init_failure(), Contains("device \"fake\" has kind 77, which \"fake\" already has"));
}

TEST_CASE("a session without the plug-in knows neither its row nor its device") {
  {
    const Variables variables(Values{{"RUEDA_ALLREDUCE_ALGORITHM", "test_star"}});
    const CallbackStore store;
    int32_t code = RUEDA_OK;
    CHECK(join(store, 0, 1, &code) == nullptr);
    CHECK(code == RUEDA_INVALID_ARGUMENT);
    CHECK_THAT(rueda_last_error(), Contains("test_star"));
  }
  run_ranks(1, [](rueda_session* session, int) {
    std::vector<float> values = {1};
    CTensor tensor(values, RUEDA_F32);
    tensor->device = kFakeDevice;
    expect_code(rueda_allreduce(session, tensor.get(), tensor.get(), RUEDA_SUM, nullptr), RUEDA_INVALID_ARGUMENT,
                "device");
    expect(std::string(rueda_last_error()).find("no plug-in serves it") != std::string::npos, rueda_last_error());
  });
}

TEST_CASE("rank: joins with the plug-ins of its environment", "[.]") {
  rueda_session* session = nullptr;
  const int32_t code = rueda_init(nullptr, &session);
  std::string sentence = rueda_last_error();
  std::ranges::replace(sentence, '\n', ' ');
  rank_report(std::string("init ") + rueda_error_name(code) + " " + sentence);
  rank_await();  // rank 0 serves the store: nobody leaves before all have heard
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

TEST_CASE("ranks with different plug-ins do not start, and are told who has which") {
  RankProcesses ranks({.size = 2, .body = "rank: joins with the plug-ins of its environment", .of_rank = [](int rank) {
                         return RankProcesses::Variables{{"RUEDA_PLUGINS", rank == 0 ? kTestPlugin : ""}};
                       }});
  for (int rank = 0; rank < 2; ++rank) {
    CHECK_THAT(ranks.await(rank, "init"), Contains("MISMATCH") && Contains("+test\" on rank 0"));
  }
  for (int rank = 0; rank < 2; ++rank) ranks.tell(rank, "go on");
  for (const RankOutcome& outcome : ranks.finish()) {
    INFO(outcome.output);
    CHECK(outcome.exit_code == 0);
  }
}

TEST_CASE("the build's description says which plug-ins were found and why others were not") {
  const Variables variables(Values{{"RUEDA_MPI_PLUGIN", "/nowhere/librueda_mpi.so"}});
  const std::string text = rueda_build_info();
  CHECK_THAT(text, Contains("\"plugins\":[") && Contains("librueda_mpi.so does not exist"));
}

}  // namespace
}  // namespace rueda::test
