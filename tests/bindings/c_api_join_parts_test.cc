// Joining where the others reduce to one rank or in parts: each rank first, on one host and on two.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/bindings/operations.h"

namespace rueda::test {
namespace {

constexpr int kJoiningRanks = 3;
enum class Hosts { kOne, kTwo };

/// Ranks as threads; on two hosts the last one is alone on its own.
template <typename Body>
void run_on(Hosts hosts, const Body& body) {
  const CallbackStore store;
  on_threads(kJoiningRanks, [&](int rank) {
    rueda_init_options options = join_options(store, rank, kJoiningRanks);
    options.host_name = hosts == Hosts::kTwo && rank == kJoiningRanks - 1 ? "b" : "a";
    rueda_session* session = nullptr;
    expect_code(rueda_init(&options, &session), RUEDA_OK, "init");
    try {
      body(session, rank);
    } catch (...) {
      static_cast<void>(rueda_shutdown(session));
      throw;
    }
    expect_code(rueda_shutdown(session), RUEDA_OK, "shutdown");
  });
}

float element(int rank, int64_t index) { return static_cast<float>((rank + 1) * (index % 50 + 1)); }

std::vector<float> elements_of(int rank, int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(element(rank, i));
  return values;
}

/// The sum over all ranks but `joined`.
float sum_at(int64_t index, int joined) {
  float sum = 0;
  for (int rank = 0; rank < kJoiningRanks; ++rank) sum += rank == joined ? 0 : element(rank, index);
  return sum;
}

/// The first row of the rank's, where `rows` are dealt out.
int64_t first_row(int64_t rows, int rank) {
  return rows / kJoiningRanks * rank + std::min<int64_t>(rank, rows % kJoiningRanks);
}

/// A reduce-scatter of a tensor of the shape, in the library's memory, while `joined` has.
void expect_dealt(rueda_session* session, int rank, int joined, int64_t rows, int64_t row) {
  std::vector<float> in = elements_of(rank, rows * row);
  const CTensor input(in.data(), RUEDA_F32, {rows, row});
  const rueda_op_options options = named("part");
  rueda_handle handle = 0;
  expect_code(rueda_reducescatter_async(session, input.get(), nullptr, RUEDA_SUM, &options, &handle), RUEDA_OK,
              "enqueue");
  expect(rueda_wait(handle, -1) == RUEDA_OK, rueda_handle_error(handle));
  rueda_tensor output{};
  output.struct_size = sizeof output;
  expect_code(rueda_output(handle, 0, &output), RUEDA_OK, "output");
  const int64_t begin = first_row(rows, rank) * row;
  const int64_t end = first_row(rows, rank + 1) * row;
  const std::string what = "rows [" + std::to_string(rows) + ", " + std::to_string(row) + "] without rank " +
                           std::to_string(joined) + " on rank " + std::to_string(rank);
  expect(output.shape[0] * row == end - begin, what + " are of another number");
  const auto* const data = static_cast<const float*>(output.data);
  for (int64_t i = begin; i < end; ++i) {
    if (data[i - begin] != sum_at(i, joined)) expect(false, what + ": element " + std::to_string(i));
  }
  expect_code(rueda_release(handle), RUEDA_OK, "release");
}

}  // namespace

TEST_CASE("rows are dealt out as before while a rank has joined, whatever their number and length") {
  const auto hosts = GENERATE(Hosts::kOne, Hosts::kTwo);
  for (int joined = 0; joined < kJoiningRanks; ++joined) {
    run_on(hosts, [&](rueda_session* session, int rank) {
      if (rank != joined) {
        // Rows shorter and longer than a block of identities, fewer than there are ranks, and of no elements.
        for (const auto& [rows, row] :
             {std::pair<int64_t, int64_t>{7, 3}, {1, 1}, {0, 5}, {4, 0}, {100'003, 1}, {5, 40'000}, {20'000, 7}}) {
          expect_dealt(session, rank, joined, rows, row);
        }
        expect_dealt(session, rank, joined, 7, 3);  // by its number now
      }
      expect_code(rueda_join(session, nullptr, nullptr), RUEDA_OK, "join");
      expect_dealt(session, rank, -1, 7, 3);
    });
  }
}

TEST_CASE("a reduce goes on without a rank that has joined, and fails where its root has") {
  const auto hosts = GENERATE(Hosts::kOne, Hosts::kTwo);
  for (int joined = 0; joined < kJoiningRanks; ++joined) {
    run_on(hosts, [&](rueda_session* session, int rank) {
      const rueda_op_options options = named("w");
      for (int32_t root = 0; root < kJoiningRanks && rank != joined; ++root) {
        for (const int64_t count : {int64_t{5}, int64_t{70'000}}) {
          std::vector<float> values = elements_of(rank, count);
          const CTensor tensor(values, RUEDA_F32);
          const int32_t code = rueda_reduce(session, tensor.get(), tensor.get(), RUEDA_SUM, root, &options);
          if (root == joined) {
            expect_code(code, RUEDA_MISMATCH, "a reduce to a rank that has joined");
            const std::string sentence = rueda_last_error();
            expect(sentence.find("has joined, and the result would go to its root, rank " + std::to_string(root)) !=
                       std::string::npos,
                   sentence);
            continue;
          }
          expect_code(code, RUEDA_OK, "reduce");
          for (int64_t i = 0; i < count; ++i) {
            const float wanted = rank == root ? sum_at(i, joined) : element(rank, i);
            expect(values[static_cast<size_t>(i)] == wanted, "element " + std::to_string(i));
          }
        }
      }
      expect_code(rueda_join(session, nullptr, nullptr), RUEDA_OK, "join");
      expect_usable(session, "at the end");
    });
  }
}

TEST_CASE("operators, averages, codecs and groups of reductions in parts know a rank that has joined") {
  const auto joined = GENERATE(0, 1, 2);
  run_on(Hosts::kOne, [&](rueda_session* session, int rank) {
    for (int step = 0; step < 2 && rank != joined; ++step) {  // in full, then by number
      const struct {
        int32_t op;
        int32_t over;
        float wanted;
      } cases[] = {{RUEDA_MIN, RUEDA_OVER_MEMBERS, 6},
                   {RUEDA_MAX, RUEDA_OVER_MEMBERS, 6},
                   {RUEDA_PRODUCT, RUEDA_OVER_MEMBERS, 36},
                   {RUEDA_AVERAGE, RUEDA_OVER_MEMBERS, 4},
                   {RUEDA_AVERAGE, RUEDA_OVER_CONTRIBUTORS, 6}};
      for (const auto& one : cases) {
        std::vector<float> values(kJoiningRanks, 6);
        const CTensor tensor(values, RUEDA_F32);
        std::vector<float> own(1);
        const CTensor output(own, RUEDA_F32);
        const std::string name = "op" + std::to_string(one.op) + "." + std::to_string(one.over);
        rueda_op_options options = named(name.c_str());
        options.average_over = one.over;
        options.codec = RUEDA_CODEC_FP16;
        expect_code(rueda_reducescatter(session, tensor.get(), output.get(), one.op, &options), RUEDA_OK, name);
        expect(own[0] == one.wanted, name + " gave " + std::to_string(own[0]));
      }
      std::vector<int32_t> a(9, rank + 1);
      std::vector<int32_t> b(30'000, 2);
      const CTensor first(a.data(), RUEDA_I32, {kJoiningRanks, 3});
      const CTensor second(b.data(), RUEDA_I32, {kJoiningRanks, 10'000});
      const rueda_tensor group[] = {*first.get(), *second.get()};
      const rueda_op_options options = named("group");
      rueda_handle handle = 0;
      expect_code(rueda_grouped_reducescatter_async(session, 2, group, nullptr, nullptr, RUEDA_SUM, &options, &handle),
                  RUEDA_OK, "group");
      expect(rueda_wait(handle, -1) == RUEDA_OK, rueda_handle_error(handle));
      rueda_tensor output{};
      output.struct_size = sizeof output;
      expect_code(rueda_output(handle, 0, &output), RUEDA_OK, "first output");
      expect(static_cast<const int32_t*>(output.data)[2] == 6 - (joined + 1), "the first sum");
      expect_code(rueda_output(handle, 1, &output), RUEDA_OK, "second output");
      expect(static_cast<const int32_t*>(output.data)[9999] == 4, "the second sum");
      expect_code(rueda_release(handle), RUEDA_OK, "release");
    }
    expect_code(rueda_join(session, nullptr, nullptr), RUEDA_OK, "join");
    expect_usable(session, "at the end");
  });
}

TEST_CASE("every exchange fails on the others with the names of those who have joined, cached or not") {
  run_on(Hosts::kOne, [&](rueda_session* session, int rank) {
    const auto exchanges = [&](int32_t expected, const char* when) {
      std::vector<float> values(kJoiningRanks, 1);
      const CTensor tensor(values, RUEDA_F32);
      const auto ended = [&](int32_t code, rueda_handle handle, const std::string& what) {
        expect_code(code, RUEDA_OK, what + when);
        const Ending ending = finish(handle);
        expect(ending.code == expected, what + when + ": " + ending.sentence);
        if (expected == RUEDA_OK) return;
        expect(ending.sentence.find("rank 1") != std::string::npos &&
                   ending.sentence.find("has joined, and " + what + " needs every member") != std::string::npos,
               ending.sentence);
      };
      rueda_op_options options = named(nullptr);
      rueda_handle handle = 0;
      int32_t code = rueda_allreduce_async(session, tensor.get(), tensor.get(), RUEDA_ADASUM, &options, &handle);
      const Ending adasum = finish(handle);
      expect(code == RUEDA_OK && adasum.code == expected, std::string("adasum") + when + ": " + adasum.sentence);
      expect(expected == RUEDA_OK || adasum.sentence.find("rank 1 (host") != std::string::npos, adasum.sentence);
      expect(expected == RUEDA_OK || adasum.sentence.find("has joined, and adasum needs") != std::string::npos,
             adasum.sentence);
      code = rueda_allgather_async(session, tensor.get(), nullptr, &options, &handle);
      ended(code, handle, "allgather");
      code = rueda_alltoall_async(session, tensor.get(), nullptr, nullptr, &options, &handle);
      ended(code, handle, "alltoall");
      code = rueda_gather_async(session, tensor.get(), nullptr, 0, &options, &handle);
      ended(code, handle, "gather");
      code = rueda_scatter_async(session, tensor.get(), nullptr, nullptr, 0, &options, &handle);
      ended(code, handle, "scatter");
      code = rueda_broadcast_async(session, tensor.get(), tensor.get(), 0, &options, &handle);
      ended(code, handle, "broadcast");
    };
    exchanges(RUEDA_OK, " before the join");
    if (rank != 1) {
      exchanges(RUEDA_MISMATCH, " while a rank has joined");
      exchanges(RUEDA_MISMATCH, " while a rank has joined, again");
      std::vector<float> passed = {1};
      const CTensor tensor(passed, RUEDA_F32);
      const rueda_op_options options = named("send");
      expect_code(
          rank == 0 ? rueda_send(session, tensor.get(), 2, &options) : rueda_recv(session, tensor.get(), 0, &options),
          RUEDA_OK, "a send between those who have not joined");
    }
    expect_code(rueda_join(session, nullptr, nullptr), RUEDA_OK, "join");
    exchanges(RUEDA_OK, " after the join");
  });
}

}  // namespace rueda::test
