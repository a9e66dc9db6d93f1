#pragma once
#include <algorithm>
#include <cstdlib>
#include <string>

#include "tests/bindings/operations.h"

namespace rueda::test {

/// Elements of a tensor that is long enough to be reduced in place.
inline constexpr size_t kInPlace = 50'000;

/// Memory for floats, freed at the end.
class Floats {
 public:
  Floats(rueda_session* session, size_t count) : count_(count) {
    memory_.struct_size = sizeof memory_;
    expect_code(rueda_memory_allocate(session, count * sizeof(float), &memory_), RUEDA_OK, "allocate");
  }
  ~Floats() { rueda_memory_free(memory_.data); }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  float* data() const { return static_cast<float*>(memory_.data); }
  size_t count() const { return count_; }
  bool shared() const { return memory_.shared == 1; }
  void fill(float value) const { std::fill(data(), data() + count_, value); }

 private:
  size_t count_;
  rueda_memory memory_{};
};

/// How many batches an algorithm has run on this rank.
inline long batches_of(rueda_session* session, const std::string& algorithm) {
  size_t bytes = 0;
  static_cast<void>(rueda_stats(session, nullptr, 0, &bytes));
  std::string json(bytes + 4096, '\0');
  expect_code(rueda_stats(session, json.data(), json.size(), &bytes), RUEDA_OK, "stats");
  const std::string row = "\"name\":\"" + algorithm + "\",\"batches\":";
  long batches = 0;  // several rows may have the name, one for each kind
  for (size_t at = json.find(row); at != std::string::npos; at = json.find(row, at + 1)) {
    batches += std::atol(json.c_str() + at + row.size());
  }
  return batches;
}

inline rueda_handle start_sum_of(rueda_session* session, const float* in, float* out, size_t count,
                                 const rueda_op_options& options) {
  const CTensor input(const_cast<float*>(in), RUEDA_F32, {static_cast<int64_t>(count)});
  const CTensor output(out, RUEDA_F32, {static_cast<int64_t>(count)});
  rueda_handle handle = 0;
  expect_code(rueda_allreduce_async(session, input.get(), output.get(), RUEDA_SUM, &options, &handle), RUEDA_OK,
              "enqueue");
  return handle;
}

inline void expect_all(const float* values, size_t count, float value, const std::string& what) {
  const auto* const other = std::find_if(values, values + count, [value](float each) { return each != value; });
  expect(other == values + count, what + ": element " + std::to_string(other - values) + " is " +
                                      std::to_string(other == values + count ? 0 : *other) + ", not " +
                                      std::to_string(value));
}

/// Sums what every rank fills with its number plus one, in place.
inline void sum_in_place(rueda_session* session, float* values, size_t count, const std::string& name,
                         int32_t set = 0) {
  const int size = rueda_process_set_size(session, set);
  std::fill(values, values + count, static_cast<float>(rueda_process_set_rank(session, set) + 1));
  rueda_op_options options = named(name.c_str());
  options.process_set = set;
  const Ending ending = finish(start_sum_of(session, values, values, count, options));
  expect(ending.code == RUEDA_OK, name + ": " + ending.sentence);
  expect_all(values, count, static_cast<float>(size * (size + 1) / 2), name);
}

}  // namespace rueda::test
