// Names by number: rueda_intern and rueda_op_options.name_id.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/bindings/operations.h"

namespace rueda::test {
namespace {

int64_t intern(rueda_session* session, const std::string& name) {
  int64_t id = 0;
  expect_code(rueda_intern(session, name.c_str(), &id), RUEDA_OK, "intern");
  return id;
}

rueda_op_options numbered(int64_t id) {
  rueda_op_options options = named(nullptr);
  options.name_id = id;
  return options;
}

void expect_refused(const rueda_handle handle, const std::string& words) {
  expect(handle == 0 && rueda_last_error_code() == RUEDA_INVALID_ARGUMENT, "the call was not refused");
  expect(std::string(rueda_last_error()).find(words) != std::string::npos,
         std::string("'") + rueda_last_error() + "' lacks '" + words + "'");
}

}  // namespace

TEST_CASE("a name has one number, another name another") {
  run_ranks(2, [](rueda_session* session, int) {
    const int64_t first = intern(session, "w1");
    expect(first >= 1 && intern(session, "w1") == first && intern(session, "w2") != first, "numbers");
    expect(intern(session, std::string(1024, 'n')) != first, "a name of 1024 bytes");
  });
}

TEST_CASE("operations by number match those by text on other ranks, step after step") {
  run_ranks(3, [](rueda_session* session, int rank) {
    if (rank == 1) static_cast<void>(intern(session, "something else"));  // so that numbers differ between ranks
    const int64_t id = rank == 2 ? 0 : intern(session, "layer.0.weight");
    for (int step = 0; step < 20; ++step) {
      std::vector<float> values = {static_cast<float>(rank + step)};
      const bool by_text = rank == 2 || (rank == 1 && step % 3 == 1);
      const rueda_op_options options = by_text ? named("layer.0.weight") : numbered(id);
      expect(finish(start_sum(session, values, options)).code == RUEDA_OK, "step " + std::to_string(step));
      expect(values[0] == static_cast<float>(3 + 3 * step), "sum of step " + std::to_string(step));
    }
  });
}

TEST_CASE("errors say the name and not the number") {
  run_ranks(2, [](rueda_session* session, int rank) {
    std::vector<float> values(static_cast<size_t>(rank) + 1);
    const Ending ending = finish(start_sum(session, values, numbered(intern(session, "odd one"))));
    expect(ending.code == RUEDA_MISMATCH && ending.sentence.find("\"odd one\"") != std::string::npos, ending.sentence);
  });
}

TEST_CASE("one name is in flight once, whether by number, by text, or numbered while in flight") {
  run_ranks(2, [](rueda_session* session, int rank) {
    std::vector<float> a(1), b(1);
    if (rank == 0) {
      const rueda_handle by_text = start_sum(session, a, "late");
      const int64_t late = intern(session, "late");
      expect_refused(start_sum(session, b, numbered(late)), "\"late\": this name is already in flight");
      const int64_t id = intern(session, "w");
      const rueda_handle by_number = start_sum(session, b, numbered(id));
      expect_refused(start_sum(session, a, "w"), "\"w\": this name is already in flight");
      expect_refused(start_sum(session, a, numbered(id)), "\"w\": this name is already in flight");
      expect_usable(session, "rank 1 goes on");
      expect(finish(by_text).code == RUEDA_OK && finish(by_number).code == RUEDA_OK, "a sum failed");
      expect(finish(start_sum(session, a, numbered(late))).code == RUEDA_OK, "the name is free again");
    } else {
      expect_usable(session, "rank 1 goes on");
      for (const char* name : {"late", "w", "late"}) expect_code(sum(session, a, name), RUEDA_OK, name);
    }
  });
}

TEST_CASE("a group's number names its members as its text would") {
  run_ranks(2, [](rueda_session* session, int rank) {
    std::vector<float> a = {1}, b = {2};
    const rueda_tensor tensors[] = {*CTensor(a, RUEDA_F32).get(), *CTensor(b, RUEDA_F32).get()};
    const int64_t shape[] = {1};
    std::vector<rueda_tensor> group(tensors, tensors + 2);
    for (rueda_tensor& tensor : group) tensor.shape = shape;
    const rueda_op_options options = rank == 0 ? numbered(intern(session, "g")) : named("g");
    expect_code(rueda_grouped_allreduce(session, 2, group.data(), group.data(), nullptr, RUEDA_SUM, &options), RUEDA_OK,
                "group");
    expect(a[0] == 2 && b[0] == 4, "a sum is wrong");
  });
}

TEST_CASE("a number that was never given out, a number beside a text, and names that cannot be are refused") {
  run_ranks(1, [](rueda_session* session, int) {
    std::vector<float> values(1);
    expect_refused(start_sum(session, values, numbered(77)), "name_id 77 does not come from rueda_intern");
    expect_refused(start_sum(session, values, numbered(-1)), "name_id -1");
    const rueda_op_options unknown = named("never interned");
    expect(finish(start_sum(session, values, unknown)).code == RUEDA_OK, "a sum by text");
    expect_refused(start_sum(session, values, numbered(1)), "name_id 1 does not come from rueda_intern");
    rueda_op_options both = named("text");
    both.name_id = intern(session, "w");
    expect_refused(start_sum(session, values, both), "name \"text\" and name_id 2");
    int64_t id = 7;
    expect_code(rueda_intern(session, "", &id), RUEDA_INVALID_ARGUMENT, "empty");
    expect(id == 0 && std::string(rueda_last_error()).find("0 bytes") != std::string::npos, rueda_last_error());
    expect_code(rueda_intern(session, std::string(1025, 'n').c_str(), &id), RUEDA_INVALID_ARGUMENT, "long");
    expect_code(rueda_intern(session, nullptr, &id), RUEDA_INVALID_ARGUMENT, "no name");
    expect_code(rueda_intern(session, "w", nullptr), RUEDA_INVALID_ARGUMENT, "no place");
    expect_code(rueda_intern(nullptr, "w", &id), RUEDA_NOT_INITIALIZED, "no session");
    expect_usable(session, "after refusals");
  });
}

}  // namespace rueda::test
