// Names and groups that are refused at enqueue, and how names stay free.
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/bindings/refusals.h"

namespace rueda::test {

TEST_CASE("a name already in flight is refused and the first operation goes on") {
  run_ranks(2, [](rueda_session* session, int rank) {
    std::vector<float> first = {1};
    std::vector<float> second = {5};
    if (rank == 0) {  // in flight for certain: rank 1 has not submitted it
      const rueda_handle handle = start_sum(session, first, "w1");
      rueda_handle refused = start_sum(session, second, "w1");
      expect_refused(session, rueda_last_error_code(), refused, "w1");
      expect_usable(session, "rank 1 may follow");
      expect(finish(handle).code == RUEDA_OK, "the first operation failed");
    } else {
      expect_usable(session, "after a refusal");
      expect_usable(session, "rank 1 may follow");
      expect_code(sum(session, first, "w1"), RUEDA_OK, "w1");
    }
    expect(first[0] == 2 && second[0] == 5, "the refused tensor was touched or the sum is wrong");
    expect_code(sum(session, second, "w1"), RUEDA_OK, "the name again, once it is free");
  });
}

TEST_CASE("a group larger than the limit is refused with both numbers, before a tensor is looked at") {
  for (const size_t count : {SIZE_MAX, (size_t{1} << 20) + 1}) {
    each_rank_is_refused(
        [count](rueda_session* session, rueda_handle* handle) {
          const rueda_tensor tensor{};
          return rueda_grouped_allreduce_async(session, count, &tensor, &tensor, nullptr, RUEDA_SUM, nullptr, handle);
        },
        "a group of " + std::to_string(count) + " tensors; the limit is 1048576");
  }
}

TEST_CASE("a name that is not UTF-8 is refused with the byte's place") {
  const std::pair<std::string, std::string> cases[] = {
      {"w\xff", "byte 1 is 0xff"},
      {"\xc3", "byte 0 is 0xc3"},
      {"a\xc0\xaf", "byte 1 is 0xc0"},
      {"ab\xed\xa0\x80", "byte 2 is 0xed"},
      {"\xf4\x90\x80\x80", "byte 0 is 0xf4"},
      {"\xe0\x9f\xbf", "byte 0 is 0xe0"},
  };
  for (const auto& [name, words] : cases) {
    each_rank_is_refused(
        [&text = name](rueda_session* session, rueda_handle* handle) {
          std::vector<float> values(1);
          const CTensor tensor(values, RUEDA_F32);
          const rueda_op_options options = named(text.c_str());
          return reduce(session, tensor.get(), RUEDA_SUM, &options, handle);
        },
        words);
  }
  run_ranks(2, [](rueda_session* session, int) {
    for (const char* name : {"Gr\xc3\xb6\xc3\x9f"
                             "e",
                             "\xe2\x82\xac", "\xf0\x9f\x92\x83", "\xef\xbf\xbd"}) {
      expect_usable(session, name);
    }
  });
}

TEST_CASE("a name to intern is UTF-8") {
  run_ranks(1, [](rueda_session* session, int) {
    int64_t id = 7;
    expect_code(rueda_intern(session, "bad\xff\xfename", &id), RUEDA_INVALID_ARGUMENT, "intern");
    expect(id == 0, "the number of a name that was refused");
    expect(std::string(rueda_last_error()).find("not UTF-8: byte 3 is 0xff") != std::string::npos, rueda_last_error());
  });
}

TEST_CASE("a flag that is neither 0 nor 1 is refused with its value") {
  each_rank_is_refused(
      [](rueda_session* session, rueda_handle* handle) {
        std::vector<float> values(1);
        const CTensor tensor(values, RUEDA_F32);
        rueda_op_options options = named("w");
        options.more = 7;
        return reduce(session, tensor.get(), RUEDA_SUM, &options, handle);
      },
      "more is 7");
}

TEST_CASE("a group with the same name twice is refused whole") {
  each_rank_is_refused(
      [](rueda_session* session, rueda_handle* handle) {
        std::vector<float> a(4);
        std::vector<float> b(4);
        const CTensor first(a, RUEDA_F32);
        const CTensor second(b, RUEDA_F32);
        const rueda_tensor tensors[] = {*first.get(), *second.get()};
        const char* const names[] = {"twin", "twin"};
        const rueda_op_options options = named("group");
        return rueda_grouped_allreduce_async(session, 2, tensors, tensors, names, RUEDA_SUM, &options, handle);
      },
      "\"twin\": tensors 0 and 1 of the group both have this name");
}

TEST_CASE("a group with one bad member is refused whole, and its good members' names stay free") {
  each_rank_is_refused(
      [](rueda_session* session, rueda_handle* handle) {
        std::vector<float> a(4);
        std::vector<float> b(4);
        const CTensor good(a, RUEDA_F32);
        const CTensor bad(b, 99);
        const rueda_tensor tensors[] = {*good.get(), *bad.get()};
        const char* const names[] = {"good", "bad"};
        const rueda_op_options options = named("group");
        const int32_t code =
            rueda_grouped_allreduce_async(session, 2, tensors, tensors, names, RUEDA_SUM, &options, handle);
        const std::string sentence = rueda_last_error();
        expect(sentence.find("99") != std::string::npos, sentence);
        expect_code(sum(session, a, "good"), RUEDA_OK, "the good member's name");
        // Refused again, for the caller's check of the sentence.
        expect_code(code, RUEDA_INVALID_ARGUMENT, "a group with a bad member");
        return rueda_grouped_allreduce_async(session, 2, tensors, tensors, names, RUEDA_SUM, &options, handle);
      },
      "99");
}

}  // namespace rueda::test
