// One tensor of more elements than 31 bits count: run by scripts/long-tests, because it takes 4 GiB and its time.
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/bindings/operations.h"

namespace rueda::test {

TEST_CASE("a sum and a broadcast of 2^31 + 1001 int8 elements are right to the last one") {
  constexpr size_t kCount = (size_t{1} << 31) + 1001;
  const auto given = [](int rank, size_t i) {
    return static_cast<int8_t>((i + i / 251 + static_cast<size_t>(rank) * 3) % 60);
  };
  run_ranks(2, [&](rueda_session* session, int rank) {
    std::vector<int8_t> values(kCount);
    for (size_t i = 0; i < kCount; ++i) values[i] = given(rank, i);
    const CTensor tensor(values, RUEDA_I8);
    expect_code(rueda_allreduce(session, tensor.get(), tensor.get(), RUEDA_SUM, nullptr), RUEDA_OK, "sum");
    for (size_t i = 0; i < kCount; ++i) {
      if (values[i] != given(0, i) + given(1, i)) expect(false, "element " + std::to_string(i) + " of the sum");
    }
    for (size_t i = 0; i < kCount; ++i) values[i] = given(rank, i);
    expect_code(rueda_broadcast(session, tensor.get(), tensor.get(), 1, nullptr), RUEDA_OK, "broadcast");
    for (size_t i = 0; i < kCount; ++i) {
      if (values[i] != given(1, i)) expect(false, "element " + std::to_string(i) + " of the broadcast");
    }
  });
}

}  // namespace rueda::test
