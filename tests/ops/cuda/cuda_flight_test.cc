// What a flight record says of a batch that is launched on a GPU and that the GPU has not finished. GPUs and NCCL are
// stand-ins.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/ops/cuda/nccl.h"
#include "tests/support/temporary_folder.h"

namespace rueda::test {
namespace {

using Json = nlohmann::ordered_json;

/// What the record of the session says of the operation.
Json recorded(rueda_session* session, const std::string& name) {
  const TemporaryFolder folder;
  expect_code(rueda_dump(session, folder.file("dump-{rank}.json").c_str()), RUEDA_OK, "dump");
  const std::string file = folder.file("dump-" + std::to_string(rueda_rank(session)) + ".json");
  const Json dump = Json::parse(text_of(file));
  for (const Json& operation : dump.at("operations")) {
    if (operation.at("name") == name) return operation;
  }
  throw std::runtime_error("the record has no " + name);
}

TEST_CASE("the flight record says of a batch that it is launched, by NCCL, and not finished on the GPU") {
  use_nccl();
  run_ranks(2, [](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    const GpuStream other(rank);
    const GpuMemory<float> memory(numbers(rank, 1000));
    std::latch go(1);
    gpu().launch(stream.get(), [&go] { go.wait(); });
    const rueda_handle held = sum_on_gpu(session, memory, 1000, "held", stream.get(), rank);
    expect_code(rueda_wait_stream(held, other.get(), -1.0), RUEDA_OK, "launched");
    const Json before = recorded(session, "held");
    go.count_down();
    expect_done(held, "held");
    const Json after = recorded(session, "held");
    expect(before.at("state") == "launched" && before.at("algorithm") == "nccl" && !before.contains("finished"),
           before.dump());
    expect(before.at("launched") >= before.at("started"), before.dump());
    // Each dump compares the clocks anew, so its times differ a little from those of another.
    expect(after.at("state") == "finished" && after.at("started") <= after.at("launched") &&
               after.at("launched") <= after.at("finished"),
           after.dump());
  });
}

}  // namespace
}  // namespace rueda::test
