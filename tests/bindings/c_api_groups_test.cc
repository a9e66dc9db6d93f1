// Groups of what moves to or from one rank: reduce, gather, scatter, send.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/bindings/operations.h"

namespace rueda::test {
namespace {

constexpr int kGroupedRanks = 3;
constexpr size_t kMembers = 3;

/// Tensors of one group: member m has `rows(m)` rows of m + 1 elements.
struct Tensors {
  std::vector<std::vector<float>> values;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<rueda_tensor> c;

  template <typename Rows>
  Tensors(Rows rows, float value) : values(kMembers), shapes(kMembers), c(kMembers) {
    for (size_t m = 0; m < kMembers; ++m) {
      shapes[m] = {rows(m), static_cast<int64_t>(m) + 1};
      values[m].assign(static_cast<size_t>(rows(m)) * (m + 1), value + static_cast<float>(m));
      c[m] = {sizeof(rueda_tensor), values[m].data(), RUEDA_F32, 2, shapes[m].data(), RUEDA_DEVICE_CPU, 0, 0, nullptr};
    }
  }
};

rueda_tensor output_of(rueda_handle handle, size_t index) {
  rueda_tensor output{};
  output.struct_size = sizeof output;
  expect_code(rueda_output(handle, index, &output), RUEDA_OK, "output");
  return output;
}

void expect_ok(rueda_handle handle) { expect(rueda_wait(handle, -1) == RUEDA_OK, rueda_handle_error(handle)); }

/// All elements of a late output are those of `wanted`.
void expect_values(const rueda_tensor& tensor, const std::vector<float>& wanted, const std::string& what) {
  int64_t count = 1;
  for (int32_t d = 0; d < tensor.dimensions; ++d) count *= tensor.shape[d];
  const auto* const data = static_cast<const float*>(tensor.data);
  expect(std::vector<float>(data, data + count) == wanted, what);
}

}  // namespace

TEST_CASE("a group of reduces gives its root the sums of all members") {
  run_ranks(kGroupedRanks, [](rueda_session* session, int rank) {
    for (int32_t root = 0; root < kGroupedRanks; ++root) {
      const auto rows = [root](size_t m) { return static_cast<int64_t>(m * 10'000 + static_cast<size_t>(root)); };
      const Tensors in(rows, static_cast<float>(rank));
      const rueda_op_options options = named("g");
      rueda_handle handle = 0;
      expect_code(rueda_grouped_reduce_async(session, kMembers, in.c.data(), nullptr, nullptr, RUEDA_SUM, root,
                                             &options, &handle),
                  RUEDA_OK, "enqueue");
      expect_ok(handle);
      for (size_t m = 0; m < kMembers && rank == root; ++m) {
        const std::vector<float> wanted(in.values[m].size(), static_cast<float>(3 + kGroupedRanks * m));
        expect_values(output_of(handle, m), wanted, "the sum of member " + std::to_string(m));
      }
      expect_code(rueda_release(handle), RUEDA_OK, "release");
      Tensors place(rows, static_cast<float>(rank));
      expect_code(
          rueda_grouped_reduce(session, kMembers, place.c.data(), place.c.data(), nullptr, RUEDA_MAX, root, &options),
          RUEDA_OK, "in place");
      const auto own = static_cast<float>(rank == root ? kGroupedRanks - 1 : rank);
      expect(place.values[2] == std::vector<float>(in.values[2].size(), own + 2), "the maximum in place");
    }
  });
}

TEST_CASE("members of a group that share memory are refused where one of them is written, and not for a broadcast") {
  run_ranks(2, [](rueda_session* session, int rank) {
    Tensors tensors([](size_t m) { return static_cast<int64_t>(100 + m); }, static_cast<float>(rank));
    std::vector<rueda_tensor> twice = {tensors.c[0], tensors.c[1], tensors.c[0]};
    const rueda_op_options options = named("twice");
    const auto sum = [&](const rueda_tensor* in, const rueda_tensor* out) {
      return rueda_grouped_allreduce(session, 3, in, out, nullptr, RUEDA_SUM, &options);
    };
    expect_code(sum(twice.data(), twice.data()), RUEDA_INVALID_ARGUMENT, "the same tensor twice, in place");
    expect(std::string(rueda_last_error()).find("tensors 0 and 2 of the group") != std::string::npos,
           rueda_last_error());
    Tensors other([](size_t m) { return static_cast<int64_t>(100 + m); }, 0);
    expect_code(sum(twice.data(), std::vector<rueda_tensor>{other.c[0], other.c[1], other.c[0]}.data()),
                RUEDA_INVALID_ARGUMENT, "two results in one place");
    std::vector<float> third(tensors.values[0].size());
    rueda_tensor apart = tensors.c[0];
    apart.data = third.data();
    expect_code(sum(twice.data(), std::vector<rueda_tensor>{other.c[0], other.c[1], apart}.data()), RUEDA_OK,
                "the same tensor read twice");
    expect(third == other.values[0] && third == std::vector<float>(third.size(), 1), "the sums");
    expect_code(rueda_grouped_broadcast(session, 3, twice.data(), twice.data(), nullptr, 1, &options), RUEDA_OK,
                "a tensor with two names");
    expect(tensors.values[0] == std::vector<float>(third.size(), 1), "the root's");
  });
}

TEST_CASE("groups of gathers and scatters move the rows of each member") {
  run_ranks(kGroupedRanks, [](rueda_session* session, int rank) {
    for (int32_t root = 0; root < kGroupedRanks; ++root) {
      const Tensors in([rank](size_t m) { return static_cast<int64_t>(m) + rank; }, static_cast<float>(rank));
      const rueda_op_options options = named("rows");
      rueda_handle handle = 0;
      expect_code(rueda_grouped_gather_async(session, kMembers, in.c.data(), nullptr, nullptr, root, &options, &handle),
                  RUEDA_OK, "gather");
      expect_ok(handle);
      for (size_t m = 0; m < kMembers && rank == root; ++m) {
        std::vector<float> wanted;
        for (size_t from = 0; from < kGroupedRanks; ++from) {
          wanted.insert(wanted.end(), (m + from) * (m + 1), static_cast<float>(from + m));
        }
        expect_values(output_of(handle, m), wanted, "the rows of member " + std::to_string(m));
      }
      std::vector<int64_t> counts(kGroupedRanks * kMembers);
      size_t count = 0;
      expect_code(rueda_received_splits(handle, counts.data(), counts.size(), &count), RUEDA_OK, "splits");
      expect(count == (rank == root ? kGroupedRanks * kMembers : 0), "a count for each member and rank");
      expect_code(rueda_release(handle), RUEDA_OK, "release");

      const Tensors dealt([](size_t m) { return static_cast<int64_t>(4 + m); }, 7);
      const int64_t uneven[kGroupedRanks] = {0, 4, 1};
      const int64_t* const splits[kMembers] = {nullptr, uneven, nullptr};
      expect_code(rueda_grouped_scatter_async(session, kMembers, dealt.c.data(), rank == root ? splits : nullptr,
                                              nullptr, nullptr, root, &options, &handle),
                  RUEDA_OK, "scatter");
      expect_ok(handle);
      const int64_t rows[kMembers][kGroupedRanks] = {{2, 1, 1}, {0, 4, 1}, {2, 2, 2}};
      for (size_t m = 0; m < kMembers; ++m) {
        const auto own = static_cast<size_t>(rows[m][rank]);
        expect_values(output_of(handle, m), std::vector<float>(own * (m + 1), 7 + static_cast<float>(m)),
                      "the rows dealt out of member " + std::to_string(m));
      }
      expect_code(rueda_release(handle), RUEDA_OK, "release");
    }
  });
}

TEST_CASE("a group that is sent meets the group of its names that is received") {
  run_ranks(kGroupedRanks, [](rueda_session* session, int rank) {
    const auto rows = [](size_t m) { return static_cast<int64_t>(m) * 30'000; };
    const rueda_op_options options = named("passed");
    const int next = (rank + 1) % kGroupedRanks;
    const int before = (rank + kGroupedRanks - 1) % kGroupedRanks;
    for (int step = 0; step < 3; ++step) {
      Tensors out(rows, static_cast<float>(10 * rank + step));
      Tensors in(rows, -1);
      rueda_handle sent = 0;
      expect_code(rueda_grouped_send_async(session, kMembers, out.c.data(), nullptr, next, &options, &sent), RUEDA_OK,
                  "send");
      expect_code(rueda_grouped_recv(session, kMembers, in.c.data(), nullptr, before, &options), RUEDA_OK, "receive");
      expect_ok(sent);
      expect_code(rueda_release(sent), RUEDA_OK, "release");
      for (size_t m = 0; m < kMembers; ++m) {
        const auto value = static_cast<float>(10 * before + step) + static_cast<float>(m);
        expect(in.values[m] == std::vector<float>(out.values[m].size(), value), "what was received");
      }
    }
    expect_code(rueda_grouped_send(session, 0, nullptr, nullptr, next, &options), RUEDA_OK, "nothing at all");
    rueda_handle handle = 0;
    Tensors one([](size_t) { return 1; }, 0);
    expect_code(rueda_grouped_recv_async(session, kMembers, one.c.data(), nullptr, rank, &options, &handle),
                RUEDA_INVALID_ARGUMENT, "a group from oneself");
    expect_usable(session, "at the end");
  });
}

TEST_CASE("a group of which one member cannot be enqueued is refused whole, and its names are free") {
  run_ranks(kGroupedRanks, [](rueda_session* session, int rank) {
    const auto rows = [](size_t m) { return static_cast<int64_t>(m) + 1; };
    Tensors bad(rows, 1);
    bad.c[1].dtype = 99;
    const rueda_op_options options = named("g");
    const rueda_tensor* const c = bad.c.data();
    rueda_handle handle = 1;
    const auto refused = [&](int32_t code, const std::string& what) {
      expect_code(code, RUEDA_INVALID_ARGUMENT, what);
      expect(handle == 0, what + " left a handle");
      handle = 1;
    };
    refused(rueda_grouped_reduce_async(session, kMembers, c, nullptr, nullptr, RUEDA_SUM, 0, &options, &handle),
            "reduce");
    refused(rueda_grouped_gather_async(session, kMembers, c, nullptr, nullptr, 0, &options, &handle), "gather");
    refused(rueda_grouped_scatter_async(session, kMembers, c, nullptr, nullptr, nullptr, 0, &options, &handle),
            "scatter");
    const int peer = rank == 0 ? 1 : 0;
    refused(rueda_grouped_send_async(session, kMembers, c, nullptr, peer, &options, &handle), "send");
    refused(rueda_grouped_recv_async(session, kMembers, c, nullptr, peer, &options, &handle), "receive");
    Tensors in(rows, static_cast<float>(rank));
    expect_code(rueda_grouped_reduce(session, kMembers, in.c.data(), in.c.data(), nullptr, RUEDA_SUM, 0, &options),
                RUEDA_OK, "the same names");
    expect_usable(session, "afterwards");
  });
}

TEST_CASE("a group of gathers of which one member differs between ranks fails whole with one sentence") {
  std::vector<std::string> sentences(kGroupedRanks);
  run_ranks(kGroupedRanks, [&](rueda_session* session, int rank) {
    Tensors in([](size_t) { return 2; }, 1);
    if (rank == 1) in.shapes[2][1] = 1;
    const rueda_op_options options = named("g");
    rueda_handle handle = 0;
    expect_code(rueda_grouped_gather_async(session, kMembers, in.c.data(), nullptr, nullptr, 0, &options, &handle),
                RUEDA_OK, "enqueue");
    const Ending ending = finish(handle);
    expect(ending.code == RUEDA_MISMATCH, ending.sentence);
    sentences[static_cast<size_t>(rank)] = ending.sentence;
    expect_usable(session, "afterwards");
  });
  CHECK(sentences[0].find("[*, 3]") != std::string::npos);
  for (const std::string& sentence : sentences) CHECK(sentence == sentences[0]);
}

}  // namespace rueda::test
