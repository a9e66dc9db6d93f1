// Joining from outside: uneven steps, identities of every operator and type, averages, sets, errors.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>

#include "tests/bindings/operations.h"
#include "tests/support/scale.h"

namespace rueda::test {
namespace {

/// Rank r takes r + 1 steps, or the other way round.
int steps_of(int rank, int size, bool first_rank_first) { return first_rank_first ? rank + 1 : size - rank; }

/// How many ranks still take part in a step.
int taking_part(int step, int size, bool first_rank_first) {
  int count = 0;
  for (int rank = 0; rank < size; ++rank) count += step < steps_of(rank, size, first_rank_first) ? 1 : 0;
  return count;
}

int32_t reduce(rueda_session* session, const CTensor& tensor, int32_t op, const rueda_op_options& options) {
  return rueda_allreduce(session, tensor.get(), tensor.get(), op, &options);
}

/// One element of each type of numbers, as bytes of its little-endian form.
struct Value {
  int32_t dtype;
  std::vector<uint8_t> bytes;
};

template <typename T>
Value value_of(int32_t dtype, T value) {
  Value result{dtype, std::vector<uint8_t>(sizeof(T))};
  std::memcpy(result.bytes.data(), &value, sizeof(T));
  return result;
}

const std::vector<Value>& some_values() {
  static const std::vector<Value> values = {
      value_of<uint8_t>(RUEDA_U8, 200),           value_of<int8_t>(RUEDA_I8, -100),
      value_of<uint16_t>(RUEDA_U16, 60000),       value_of<int16_t>(RUEDA_I16, -30000),
      value_of<uint32_t>(RUEDA_U32, 4000000000u), value_of<int32_t>(RUEDA_I32, -7),
      value_of<uint64_t>(RUEDA_U64, ~0ull),       value_of<int64_t>(RUEDA_I64, INT64_MIN),
      value_of<uint16_t>(RUEDA_F16, 0xc200),      value_of<uint16_t>(RUEDA_BF16, 0xc040),
      value_of<float>(RUEDA_F32, -0.0f),          value_of<double>(RUEDA_F64, -1e300),
      value_of<uint8_t>(RUEDA_BOOL, 0),           value_of<uint8_t>(RUEDA_BOOL, 1)};
  return values;
}

bool is_integer(int32_t dtype) { return dtype <= RUEDA_I64; }

}  // namespace

TEST_CASE("who has joined a set still receives from any of it, and nothing else enters") {
  run_ranks(2, [](rueda_session* session, int rank) {
    const std::vector<int32_t> both{0, 1};
    rueda_op_options options = named("m");
    expect_code(rueda_process_set_add(session, 2, both.data(), "both", &options.process_set), RUEDA_OK, "a set");
    std::vector<float> values(4, static_cast<float>(rank));
    const CTensor tensor(values, RUEDA_F32);
    rueda_handle joined = 0, other = 0;
    if (rank == 0) {
      expect_code(rueda_join_async(session, &options, &joined), RUEDA_OK, "join");
      expect_code(rueda_recv(session, tensor.get(), RUEDA_ANY_SOURCE, &options), RUEDA_OK, "receive");
      expect(values[3] == 1, "what rank 1 sent");
      expect_code(rueda_allreduce_async(session, tensor.get(), tensor.get(), RUEDA_SUM, &options, &other),
                  RUEDA_INVALID_ARGUMENT, "an all-reduce after the join");
      expect_code(rueda_send(session, tensor.get(), 1, &options), RUEDA_OK, "send");
    } else {
      expect_code(rueda_send(session, tensor.get(), 0, &options), RUEDA_OK, "send");
      expect_code(rueda_recv(session, tensor.get(), 0, &options), RUEDA_OK, "rank 0 has tried");  // as long as it waits
      expect_code(rueda_join_async(session, &options, &joined), RUEDA_OK, "join");
    }
    expect_code(rueda_wait(joined, -1), RUEDA_OK, "the join");
    expect_code(rueda_release(joined), RUEDA_OK, "release");
  });
}

TEST_CASE("a set may be removed at once after its join, while a batch still stands in for this rank") {
  run_ranks(2, [](rueda_session* session, int rank) {
    for (int round = 0; round < 3; ++round) {
      const std::vector<int32_t> both{0, 1};
      rueda_op_options options = named("large");
      expect_code(rueda_process_set_add(session, 2, both.data(), "both", &options.process_set), RUEDA_OK, "a set");
      std::vector<float> values(rank == 0 ? 0 : size_t{1} << 22, 1);
      const rueda_handle large = rank == 0 ? 0 : start_sum(session, values, options);
      int32_t last = -1;
      expect_code(rueda_join(session, &options, &last), RUEDA_OK, "join");
      if (rank == 1) {
        const Ending ending = finish(large);
        expect(ending.code == RUEDA_OK && values.front() == 1 && values.back() == 1, ending.sentence);
      }
      expect_code(rueda_process_set_remove(session, options.process_set), RUEDA_OK, "the set goes");
    }
    expect_usable(session, "after the sets");
  });
}

TEST_CASE("uneven steps: sums of named, unnamed and grouped tensors go on among those that have not joined") {
  constexpr int kSize = 3;
  const bool first_rank_first = GENERATE(true, false);
  run_ranks(kSize, [&](rueda_session* session, int rank) {
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (int step = 0; step < steps_of(rank, kSize, first_rank_first); ++step) {
        const auto expected = static_cast<float>(taking_part(step, kSize, first_rank_first));
        std::vector<float> named_one(5, 1);
        std::vector<float> unnamed_one(3, 1);
        std::vector<float> large(100000, 1);
        const rueda_handle handles[] = {start_sum(session, named_one, "w"),
                                        start_sum(session, unnamed_one, named(nullptr)),
                                        start_sum(session, large, "large")};
        for (const rueda_handle handle : handles) {
          const Ending ending = finish(handle);
          expect(ending.code == RUEDA_OK, ending.sentence);
        }
        expect(named_one[4] == expected && unnamed_one[0] == expected,
               "a small sum is " + std::to_string(named_one[4]));
        expect(large.front() == expected && large.back() == expected, "the large sum is " + std::to_string(large[7]));
        std::vector<float> a(4, 1);
        std::vector<float> b(70000, 1);
        const CTensor tensors[] = {CTensor(a.data(), RUEDA_F32, {4}), CTensor(b.data(), RUEDA_F32, {70000})};
        const rueda_tensor group[] = {*tensors[0].get(), *tensors[1].get()};
        const rueda_op_options options = named("group");
        expect_code(rueda_grouped_allreduce(session, 2, group, group, nullptr, RUEDA_SUM, &options), RUEDA_OK, "group");
        expect(a[0] == expected && b[69999] == expected, "the group's sums");
      }
      int32_t last = -1;
      expect_code(rueda_join(session, nullptr, &last), RUEDA_OK, "join");
      expect(last == (first_rank_first ? kSize - 1 : 0), "rank " + std::to_string(last) + " joined last");
      expect_usable(session, "after the join");
    }
  });
}

TEST_CASE("what a rank that has joined gives changes no result, whatever operator and type") {
  const auto joins = GENERATE(0, 1);
  run_ranks(2, [&](rueda_session* session, int rank) {
    if (rank == joins) {
      expect_code(rueda_join(session, nullptr, nullptr), RUEDA_OK, "join");
      return;
    }
    for (const Value& value : some_values()) {
      for (const int32_t op : {RUEDA_SUM, RUEDA_MIN, RUEDA_MAX, RUEDA_PRODUCT, RUEDA_BAND, RUEDA_BOR, RUEDA_BXOR}) {
        const bool bitwise = op == RUEDA_BAND || op == RUEDA_BOR || op == RUEDA_BXOR;
        if (bitwise && !is_integer(value.dtype)) continue;
        if (!core::kThorough && (value.dtype + op) % 5 != joins) continue;
        for (const size_t count :
             {size_t{1}, size_t{80'000} / value.bytes.size()}) {  // of 64 KiB an absent rank gives one block
          std::vector<uint8_t> data;
          for (size_t i = 0; i < count; ++i) data.insert(data.end(), value.bytes.begin(), value.bytes.end());
          const std::vector<uint8_t> before = data;
          const CTensor tensor(data.data(), value.dtype, {static_cast<int64_t>(count)});
          expect_code(reduce(session, tensor, op, named(nullptr)), RUEDA_OK, "allreduce");
          expect(data == before, "dtype " + std::to_string(value.dtype) + " op " + std::to_string(op) + " count " +
                                     std::to_string(count) + " was changed by a rank that has joined");
        }
      }
    }
    expect_code(rueda_join(session, nullptr, nullptr), RUEDA_OK, "join");
  });
}

TEST_CASE("scales and codecs of others apply to what a rank that has joined gives") {
  run_ranks(2, [](rueda_session* session, int rank) {
    if (rank == 0) {
      expect_code(rueda_join(session, nullptr, nullptr), RUEDA_OK, "join");
      return;
    }
    for (const double prescale : {2.0, -0.5, 0.0}) {
      for (const int32_t op : {RUEDA_SUM, RUEDA_MIN, RUEDA_MAX}) {
        for (const int32_t codec : {RUEDA_CODEC_NONE, RUEDA_CODEC_FP16, RUEDA_CODEC_BF16}) {
          std::vector<float> values = {3, -8, 0.5f};
          std::vector<float> expected;
          expected.reserve(values.size());
          for (const float value : values) expected.push_back(value * static_cast<float>(prescale) * 4);
          const CTensor tensor(values, RUEDA_F32);
          rueda_op_options options = named(nullptr);
          options.codec = codec;
          options.has_scale = 1;
          options.prescale = prescale;
          options.postscale = 4;
          expect_code(reduce(session, tensor, op, options), RUEDA_OK, "allreduce");
          for (size_t i = 0; i < values.size(); ++i) {
            expect(values[i] == expected[i], "prescale " + std::to_string(prescale) + " op " + std::to_string(op) +
                                                 " gave " + std::to_string(values[i]));
          }
        }
      }
    }
    expect_code(rueda_join(session, nullptr, nullptr), RUEDA_OK, "join");
  });
}

TEST_CASE("an average divides by all members, or by those that contributed") {
  run_ranks(4, [](rueda_session* session, int rank) {
    std::vector<float> values = {12};
    if (rank != 2) {
      for (const int32_t over : {RUEDA_OVER_MEMBERS, RUEDA_OVER_CONTRIBUTORS}) {
        values[0] = 12;
        const CTensor tensor(values, RUEDA_F32);
        rueda_op_options options = named("average");
        options.average_over = over;
        expect_code(reduce(session, tensor, RUEDA_AVERAGE, options), RUEDA_OK, "average");
        expect(values[0] == (over == RUEDA_OVER_MEMBERS ? 9 : 12), "the average is " + std::to_string(values[0]));
      }
    }
    expect_code(rueda_join(session, nullptr, nullptr), RUEDA_OK, "join");
    values[0] = static_cast<float>(rank);
    const CTensor tensor(values, RUEDA_F32);
    rueda_op_options options = named("average");
    options.average_over = RUEDA_OVER_CONTRIBUTORS;
    expect_code(reduce(session, tensor, RUEDA_AVERAGE, options), RUEDA_OK, "average of all");
    expect(values[0] == 1.5f, "the average of all is " + std::to_string(values[0]));
  });
}

TEST_CASE("what has no neutral contribution fails on the others with one sentence and the session goes on") {
  run_ranks(3, [](rueda_session* session, int rank) {
    if (rank == 1) {
      expect_code(rueda_join(session, nullptr, nullptr), RUEDA_OK, "join");
      return expect_usable(session, "at the end");
    }
    std::vector<float> values = {2};
    const CTensor tensor(values, RUEDA_F32);
    rueda_op_options options = named("w");
    expect_code(rueda_broadcast(session, tensor.get(), tensor.get(), 0, &options), RUEDA_MISMATCH, "broadcast");
    const std::string sentence = rueda_last_error();
    expect(sentence.find("broadcast \"w\": rank 1") == 0 && sentence.find("has joined") != std::string::npos, sentence);
    options.has_scale = 1;
    options.prescale = 3;
    options.postscale = 1;
    expect_code(reduce(session, tensor, RUEDA_PRODUCT, options), RUEDA_MISMATCH, "a scaled product");
    options.has_scale = 0;
    expect_code(reduce(session, tensor, RUEDA_PRODUCT, options), RUEDA_OK, "a product");
    expect(values[0] == 4, "the product is " + std::to_string(values[0]));
    expect_code(rueda_barrier(session, nullptr), RUEDA_OK, "barrier");
    expect_code(rueda_join(session, nullptr, nullptr), RUEDA_OK, "join");
    expect_usable(session, "at the end");
  });
}

TEST_CASE("an asynchronous join is a handle, and until it ends this rank is refused in that set only") {
  std::atomic<int> called{0};
  run_ranks(2, [&called](rueda_session* session, int rank) {
    const std::vector<int32_t> both = {0, 1};
    int32_t set = -1;
    expect_code(rueda_process_set_add(session, 2, both.data(), nullptr, &set), RUEDA_OK, "add");
    rueda_op_options in_set = named(nullptr);
    in_set.process_set = set;
    std::vector<float> values = {1};
    if (rank == 0) {
      in_set.callback = [](void* context, rueda_handle, int32_t) {
        static_cast<std::atomic<int>*>(context)->fetch_add(1);
      };
      in_set.callback_context = &called;
      rueda_handle handle = 0;
      expect_code(rueda_join_async(session, &in_set, &handle), RUEDA_OK, "join");
      int32_t last = -1;
      expect_code(rueda_last_joined(handle, &last), RUEDA_INVALID_ARGUMENT, "the last of a join in flight");
      in_set.callback = nullptr;
      expect(start_sum(session, values, in_set) == 0, "an operation after the join");
      expect(std::string(rueda_last_error()).find("has joined process set") != std::string::npos, rueda_last_error());
      rueda_handle again = 0;
      expect_code(rueda_join_async(session, &in_set, &again), RUEDA_INVALID_ARGUMENT, "a second join");
      expect_code(rueda_process_set_remove(session, set), RUEDA_INVALID_ARGUMENT, "removal while joined");
      expect_code(rueda_abandon(handle, 100), RUEDA_TIMEOUT, "abandon");
      expect_usable(session, "in another set");
      expect_code(rueda_wait(handle, -1), RUEDA_OK, "wait");
      expect_code(rueda_last_joined(handle, &last), RUEDA_OK, "last");
      expect(last == 1, "the last is " + std::to_string(last));
      expect_code(rueda_release(handle), RUEDA_OK, "release");
      return expect_usable(session, "after the join");
    }
    const Ending alone = finish(start_sum(session, values, in_set));
    expect(alone.code == RUEDA_OK && values[0] == 1, "a sum of one: " + alone.sentence);
    expect_usable(session, "in another set");
    expect_code(rueda_join(session, &in_set, nullptr), RUEDA_OK, "join");
    expect_usable(session, "after the join");
  });
  CHECK(called.load() == 1);
}

TEST_CASE("a join fails as shut down when a member leaves") {
  run_ranks(3, [](rueda_session* session, int rank) {
    if (rank == 2) return;
    expect_code(rueda_join(session, nullptr, nullptr), RUEDA_SHUT_DOWN, "join");
  });
}

TEST_CASE("an average over something unknown is refused") {
  run_ranks(1, [](rueda_session* session, int) {
    std::vector<float> values = {1};
    const CTensor tensor(values, RUEDA_F32);
    rueda_op_options options = named("w");
    options.average_over = 2;
    expect_code(reduce(session, tensor, RUEDA_AVERAGE, options), RUEDA_INVALID_ARGUMENT, "average_over 2");
    int32_t last = -1;
    expect_code(rueda_join(session, nullptr, &last), RUEDA_OK, "join of one");
    expect(last == 0, "the last of one");
    expect_usable(session, "at the end");
  });
}

}  // namespace rueda::test
