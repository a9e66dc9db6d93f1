// Process sets from outside: made by members, by all, at init; used in any order; refused where they must be.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "tests/bindings/operations.h"
#include "tests/sim/random.h"

namespace rueda::test {
namespace {

int32_t add(rueda_session* session, const std::vector<int32_t>& ranks, const char* name = nullptr) {
  int32_t set = -1;
  expect_code(rueda_process_set_add(session, ranks.size(), ranks.data(), name, &set), RUEDA_OK, "add");
  return set;
}

rueda_op_options in_set(int32_t set, const char* name = nullptr) {
  rueda_op_options options = named(name);
  options.process_set = set;
  return options;
}

/// Proves that the set works: its members' ranks add up.
void expect_sum(rueda_session* session, int32_t set, const std::vector<int32_t>& ranks) {
  std::vector<float> value = {static_cast<float>(rueda_rank(session))};
  const CTensor tensor(value, RUEDA_F32);
  const rueda_op_options options = in_set(set);
  expect_code(rueda_allreduce(session, tensor.get(), tensor.get(), RUEDA_SUM, &options), RUEDA_OK,
              "allreduce in a set");
  expect(value[0] == static_cast<float>(std::accumulate(ranks.begin(), ranks.end(), 0)), "a wrong sum in a set");
}

void expect_refused(int32_t code, const std::string& text) {
  expect_code(code, RUEDA_INVALID_ARGUMENT, text);
  expect(std::string(rueda_last_error()).find(text) != std::string::npos,
         "no \"" + text + "\" in: " + rueda_last_error());
}

/// Distinct random lists, each of at least one rank.
std::vector<std::vector<int32_t>> random_sets(size_t count, int size) {
  sim::Random random(7);
  std::vector<std::vector<int32_t>> sets(count);
  std::vector<int32_t> all(static_cast<size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  for (auto& ranks : sets) {
    random.shuffle(all);
    ranks.assign(all.begin(), all.begin() + 1 + static_cast<std::ptrdiff_t>(random.below(all.size())));
  }
  return sets;
}

}  // namespace

TEST_CASE("a set is made by its members alone, whether rank 0 is one or not") {
  for (const std::vector<int32_t>& ranks : {std::vector<int32_t>{2, 1}, std::vector<int32_t>{0, 2}}) {
    run_ranks(3, [&](rueda_session* session, int rank) {
      // Nobody leaves before the others are done: rank 0's goodbye ends every set.
      if (std::count(ranks.begin(), ranks.end(), rank) == 0) return expect_usable(session, "at the end");
      const int32_t set = add(session, ranks, "ours");
      expect_sum(session, set, ranks);
      expect(rueda_process_set_size(session, set) == 2, "size");
      expect(rueda_process_set_rank(session, set) == (rank == 2 ? 1 : 0), "place in the set");
      int32_t members[2] = {};
      size_t count = 0;
      expect_code(rueda_process_set_ranks(session, set, members, 1, &count), RUEDA_OK, "ranks");
      expect(count == 2 && members[0] == std::min(ranks[0], ranks[1]) && members[1] == 0, "the members, cut off");
      expect_code(rueda_process_set_remove(session, set), RUEDA_OK, "remove");
      expect(rueda_process_set_size(session, set) == -1, "a removed set is unknown");
      expect_usable(session, "at the end");
    });
  }
}

TEST_CASE("sets of init are there from the start with equal numbers on all ranks") {
  const CallbackStore store;
  on_threads(3, [&](int rank) {
    const std::vector<int32_t> even = {0, 2};
    const std::vector<int32_t> last = {1, 2};
    const rueda_process_set sets[] = {{sizeof(rueda_process_set), even.data(), 2},
                                      {sizeof(rueda_process_set), last.data(), 2}};
    rueda_init_options options = join_options(store, rank, 3);
    options.process_sets = sets;
    options.process_set_count = 2;
    rueda_session* session = nullptr;
    expect_code(rueda_init(&options, &session), RUEDA_OK, "init");
    if (rank != 1) expect_sum(session, 1, even);
    if (rank != 0) expect_sum(session, 2, last);
    expect(rueda_process_set_rank(session, 1) == (rank == 1 ? -1 : rank / 2), "place in set 1");
    expect_usable(session, "at the end");
    expect_code(rueda_shutdown(session), RUEDA_OK, "shutdown");
  });
}

TEST_CASE("sets of init that differ between ranks are refused on all of them, with who gives which") {
  const CallbackStore store;
  std::vector<std::string> sentences(3);
  on_threads(3, [&](int rank) {
    const std::vector<int32_t> ranks = rank == 0 ? std::vector<int32_t>{0, 1, 2} : std::vector<int32_t>{2, 1};
    const rueda_process_set sets[] = {{sizeof(rueda_process_set), ranks.data(), ranks.size()}};
    rueda_init_options options = join_options(store, rank, 3);
    options.process_sets = sets;
    options.process_set_count = 1;
    rueda_session* session = nullptr;
    expect_code(rueda_init(&options, &session), RUEDA_MISMATCH, "init");
    sentences[static_cast<size_t>(rank)] = rueda_last_error();
    options.process_set_count = 0;  // nothing of the first attempt is left
    expect_code(rueda_init(&options, &session), RUEDA_OK, "the next init");
    expect_usable(session, "after it");
    expect_code(rueda_shutdown(session), RUEDA_OK, "shutdown");
  });
  for (const std::string& sentence : sentences) {
    CHECK_THAT(sentence, Catch::Matchers::Contains("process sets: \"ranks 0-2\" on rank 0 (host ") &&
                             Catch::Matchers::Contains("\"ranks 1-2\" on ranks 1-2 (host "));
  }
}

TEST_CASE("a rank without sets of init is not let in beside ranks that have some, and long lists are told apart") {
  const CallbackStore store;
  for (const size_t count : {size_t{0}, size_t{200}}) {
    on_threads(2, [&](int rank) {
      const int32_t both[] = {0, 1};
      const int32_t one[] = {0};
      std::vector<rueda_process_set> sets(200, {sizeof(rueda_process_set), both, 2});
      if (rank == 1) sets.resize(count);
      if (rank == 1 && count != 0) sets.back() = {sizeof(rueda_process_set), one, 1};
      rueda_init_options options = join_options(store, rank, 2);
      options.process_sets = sets.data();
      options.process_set_count = sets.size();
      rueda_session* session = nullptr;
      expect_code(rueda_init(&options, &session), RUEDA_MISMATCH, "init");
      const std::string sentence = rueda_last_error();
      expect(sentence.find(count == 0 ? "\"none\" on rank 1" : "... (200 sets, ") != std::string::npos, sentence);
    });
  }
}

TEST_CASE("a wrong set of init is refused before anybody is met") {
  const int32_t ranks[] = {0, 5};
  const rueda_process_set set = {sizeof set, ranks, 2};
  rueda_init_options options{};
  options.struct_size = sizeof options;
  options.process_sets = &set;
  options.process_set_count = 1;
  rueda_session* session = nullptr;
  CHECK(rueda_init(&options, &session) == RUEDA_INVALID_ARGUMENT);
  CHECK(std::string(rueda_last_error()) == "rank 5 of a process set is not in this job; its ranks are 0 to 0");
}

TEST_CASE("an extra unnamed operation in one set or of one kind shifts nothing in another") {
  run_ranks(3, [](rueda_session* session, int rank) {
    const std::vector<int32_t> all = {0, 1, 2};
    const int32_t twin = add(session, all, "twin");
    std::vector<float> extra(4, 1);
    std::vector<float> global(5, 1);
    std::vector<float> moved(3, static_cast<float>(rank));
    // Rank 1 is one all-reduce ahead in one set: what the others have unnamed elsewhere, and of other kinds, is not it.
    const rueda_handle ahead = rank == 1 ? start_sum(session, extra, in_set(twin)) : 0;
    for (int step = 0; step < 3; ++step) {
      global.assign(5 + static_cast<size_t>(step), 1);
      const Ending ending = finish(start_sum(session, global, in_set(RUEDA_GLOBAL_SET)));
      expect(ending.code == RUEDA_OK && global[4] == 3, "in the set of all: " + ending.sentence);
      for (const int32_t set : {twin, int32_t{RUEDA_GLOBAL_SET}}) {
        moved.assign(3, static_cast<float>(rank));
        const CTensor tensor(moved, RUEDA_F32);
        const rueda_op_options options = in_set(set);
        expect_code(rueda_broadcast(session, tensor.get(), tensor.get(), 2, &options), RUEDA_OK, "broadcast");
        expect(moved[0] == 2, "the broadcast");
        expect_code(rueda_barrier(session, &options), RUEDA_OK, "barrier");
      }
    }
    const Ending late = finish(rank == 1 ? ahead : start_sum(session, extra, in_set(twin)));
    expect(late.code == RUEDA_OK && extra[3] == 3, "the extra one: " + late.sentence);
    expect_usable(session, "at the end");
  });
}

TEST_CASE("200 random overlapping sets sum up, each rank in an order of its own") {
  constexpr int kSize = 6;
  const auto sets = random_sets(200, kSize);
  run_ranks(kSize, [&](rueda_session* session, int rank) {
    sim::Random random(static_cast<uint64_t>(rank));
    std::vector<size_t> mine;
    for (size_t i = 0; i < sets.size(); ++i) {
      if (std::count(sets[i].begin(), sets[i].end(), rank) != 0) mine.push_back(i);
    }
    std::vector<int32_t> numbers(sets.size(), -1);
    std::vector<std::vector<float>> values(sets.size());
    std::vector<rueda_handle> handles(sets.size(), 0);
    random.shuffle(mine);
    for (const size_t i : mine) numbers[i] = add(session, sets[i], ("set " + std::to_string(i)).c_str());
    for (int round = 0; round < 2; ++round) {
      random.shuffle(mine);
      for (const size_t i : mine) {
        values[i].assign(1 + i * 97, static_cast<float>(rank + round));
        handles[i] = start_sum(session, values[i], in_set(numbers[i]));
      }
      random.shuffle(mine);
      for (const size_t i : mine) {
        const Ending ending = finish(handles[i]);
        expect(ending.code == RUEDA_OK, ending.sentence);
        const int sum = std::accumulate(sets[i].begin(), sets[i].end(), round * static_cast<int>(sets[i].size()));
        expect(values[i].front() == static_cast<float>(sum) && values[i].back() == static_cast<float>(sum),
               "set " + std::to_string(i) + " gave " + std::to_string(values[i].front()));
      }
    }
    for (const size_t i : mine) expect_code(rueda_process_set_remove(session, numbers[i]), RUEDA_OK, "remove");
    expect_usable(session, "at the end");
  });
}

TEST_CASE("an extra unnamed operation in one set shifts no names in another") {
  run_ranks(3, [](rueda_session* session, int rank) {
    std::vector<float> extra = {1};
    std::vector<float> first = {1};
    std::vector<float> second = {2};
    rueda_handle in_pair = 0;
    const int32_t pair = rank == 2 ? -1 : add(session, {0, 1});
    // In the pair's set the unnamed all-reduce comes before those of all ranks on one rank, between them on the other.
    if (rank == 0) in_pair = start_sum(session, extra, in_set(pair));
    const rueda_handle one = start_sum(session, first, named(nullptr));
    if (rank == 1) in_pair = start_sum(session, extra, in_set(pair));
    const rueda_handle two = start_sum(session, second, named(nullptr));
    if (rank != 2) expect(finish(in_pair).code == RUEDA_OK && extra[0] == 2, "in the pair");
    expect(finish(one).code == RUEDA_OK && first[0] == 3, "the first among all");
    expect(finish(two).code == RUEDA_OK && second[0] == 6, "the second among all");
  });
}

TEST_CASE("one name may be in flight in two sets at once") {
  run_ranks(2, [](rueda_session* session, int) {
    const int32_t set = add(session, {0, 1});
    std::vector<float> one(3, 1);
    std::vector<float> other(5, 1);
    const rueda_handle first = start_sum(session, one, "w");
    const rueda_handle second = start_sum(session, other, in_set(set, "w"));
    expect(first != 0 && second != 0, "refused");
    expect(finish(first).code == RUEDA_OK && finish(second).code == RUEDA_OK, "failed");
    expect(one[0] == 2 && other[4] == 2, "wrong sums");
  });
}

TEST_CASE("wrong sets and wrong uses of sets are refused") {
  run_ranks(3, [](rueda_session* session, int rank) {
    const std::vector<int32_t> twice = {0, 1, 0};
    const std::vector<int32_t> outside = {0, 3};
    const std::vector<int32_t> negative = {-1, 0};
    int32_t set = 0;
    expect_refused(rueda_process_set_add(session, 0, nullptr, nullptr, &set), "at least one rank");
    expect(set == -1, "the set's number after a refusal");
    expect_refused(rueda_process_set_add(session, 3, twice.data(), nullptr, &set), "rank 0 appears twice");
    expect_refused(rueda_process_set_add(session, 2, outside.data(), nullptr, &set), "rank 3");
    expect_refused(rueda_process_set_add(session, 2, negative.data(), nullptr, &set), "rank -1");
    expect_refused(rueda_process_set_add(session, 2, nullptr, nullptr, &set), "ranks is NULL");
    expect_refused(rueda_process_set_add(session, 2, twice.data(), nullptr, nullptr), "set is NULL");
    const std::string endless(1025, 'n');
    expect_refused(rueda_process_set_add(session, 2, twice.data(), endless.c_str(), &set), "1025 bytes");
    const std::vector<int32_t> pair = {0, 1};
    const int32_t ours = add(session, pair, "pair");
    expect_refused(rueda_process_set_add(session, 2, pair.data(), "pair", &set), "already has the name \"pair\"");
    expect_refused(rueda_process_set_remove(session, 77), "process set 77 does not exist");
    expect_refused(rueda_process_set_remove(session, RUEDA_GLOBAL_SET), "cannot be removed");
    expect(rueda_process_set_size(session, 77) == -1, "size of no set");
    expect_refused(rueda_last_error_code(), "77");
    std::vector<float> value = {1};
    if (rank == 2) {
      expect(start_sum(session, value, in_set(ours)) == 0, "not refused");
      expect_refused(rueda_last_error_code(), "rank 2 is not a member of process set " + std::to_string(ours));
      expect(rueda_process_set_rank(session, ours) == -1, "place of no member");
      expect_refused(rueda_last_error_code(), "rank 2 is not a member");
      return expect_usable(session, "at the end");
    }
    const CTensor tensor(value, RUEDA_F32);
    const rueda_op_options options = in_set(ours);
    rueda_handle handle = 0;
    expect_refused(rueda_broadcast_async(session, tensor.get(), tensor.get(), 2, &options, &handle),
                   "broadcast root 2 is not a member of process set");
    if (rank == 0) {
      handle = start_sum(session, value, in_set(ours, "w"));
      expect_refused(rueda_process_set_remove(session, ours), "1 operations of this rank in flight");
      expect(finish(handle).code == RUEDA_OK, "the sum");
    } else {
      expect(finish(start_sum(session, value, in_set(ours, "w"))).code == RUEDA_OK, "the sum");
    }
    expect_code(rueda_process_set_remove(session, ours), RUEDA_OK, "remove");
    expect_usable(session, "at the end");
  });
}

TEST_CASE("a set is removed also where other ranks have shut down") {
  run_ranks(2, [](rueda_session* session, int rank) {
    const int32_t set = add(session, {0, 1});
    expect_usable(session, "with the set");
    if (rank == 0) return;
    std::vector<float> value = {1};
    const rueda_handle handle = start_sum(session, value, in_set(set, "w"));
    expect((handle == 0 ? rueda_last_error_code() : finish(handle).code) == RUEDA_SHUT_DOWN, "a sum without rank 0");
    expect_code(rueda_process_set_remove(session, set), RUEDA_OK, "remove");
    expect_refused(rueda_process_set_remove(session, set), "does not exist");
  });
}

TEST_CASE("a broadcast in a set takes its root by its rank in the job") {
  run_ranks(3, [](rueda_session* session, int rank) {
    if (rank == 0) return expect_usable(session, "at the end");
    const int32_t set = add(session, {1, 2});
    std::vector<float> value = {static_cast<float>(rank)};
    const CTensor tensor(value, RUEDA_F32);
    const rueda_op_options options = in_set(set);
    expect_code(rueda_broadcast(session, tensor.get(), tensor.get(), 2, &options), RUEDA_OK, "broadcast");
    expect(value[0] == 2, "the root's value");
    expect_code(rueda_barrier(session, &options), RUEDA_OK, "barrier");
    expect_usable(session, "at the end");
  });
}

TEST_CASE("an operation whose set is never made can be abandoned, on all ranks") {
  run_ranks(3, [](rueda_session* session, int rank) {
    std::vector<float> value = {1};
    if (rank != 2) {
      const int32_t set = add(session, {0, 1, 2}, "never");
      const rueda_handle handle = start_sum(session, value, in_set(set, "w"));
      if (rank == 0) expect_code(rueda_abandon(handle, 120), RUEDA_TIMEOUT, "abandon");
      const Ending ending = finish(handle);
      expect(ending.code == RUEDA_TIMEOUT, ending.sentence);
      expect(ending.sentence.find("process set \"never\" of ranks 0-2") != std::string::npos, ending.sentence);
    }
    expect_usable(session, "at the end");
  });
}

}  // namespace rueda::test
