// DistributedOptimizer: what it computes, against one process that sees all the data, and what it refuses.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <future>
#include <string>
#include <vector>

#include "rueda.hpp"
#include "tests/bindings/cpp_ranks.h"

namespace rueda::test {
namespace {

constexpr size_t kParameters = 5;

struct Named {
  std::string name;
  std::span<float> value;
  std::span<float> gradient;
};
struct NamedState {
  std::string name;
  std::span<float> value;
};

// Five parameters of 1, 4, 9, ... elements under gradient descent with momentum.
class Descent {
 public:
  explicit Descent(float start, std::string second_name = "w1") : second_name_(std::move(second_name)) {
    for (size_t i = 0; i < kParameters; ++i) {
      const size_t count = (i + 1) * (i + 1);
      values_.emplace_back(count, start);
      gradients_.emplace_back(count, 0.0F);
      velocities_.emplace_back(count, start);
    }
  }
  std::vector<Named> parameters() {
    std::vector<Named> all;
    for (size_t i = 0; i < kParameters; ++i)
      all.push_back({i == 1 ? second_name_ : name(i), values_[i], gradients_[i]});
    return all;
  }
  std::vector<NamedState> state() {
    std::vector<NamedState> all;
    for (size_t i = 0; i < kParameters; ++i) all.push_back({name(i), velocities_[i]});
    return all;
  }
  int step(float rate = 0.1F) {
    for (size_t i = 0; i < kParameters; ++i) {
      for (size_t k = 0; k < values_[i].size(); ++k) {
        velocities_[i][k] = 0.5F * velocities_[i][k] + gradients_[i][k];
        values_[i][k] -= rate * velocities_[i][k];
      }
    }
    return ++steps_;
  }
  static std::string name(size_t i) { return "w" + std::to_string(i); }
  std::vector<float>& gradient(size_t i) { return gradients_[i]; }
  const std::vector<std::vector<float>>& values() const { return values_; }
  const std::vector<std::vector<float>>& velocities() const { return velocities_; }

 private:
  std::string second_name_;
  std::vector<std::vector<float>> values_, gradients_, velocities_;
  int steps_ = 0;
};

using Distributed = DistributedOptimizer<Descent>;

// The slope of a sample at an element: anything that differs by sample, place and value.
float slope(int sample, size_t parameter, size_t k, float value) {
  return value * 0.3F +
         static_cast<float>(std::sin(sample * 1.7 + static_cast<double>(parameter) * 0.9 + static_cast<double>(k)));
}

// Adds the mean slope of `samples` to the gradient of one parameter.
void add_gradient(Descent& descent, size_t parameter, const std::vector<int>& samples) {
  std::vector<float>& gradient = descent.gradient(parameter);
  for (size_t k = 0; k < gradient.size(); ++k) {
    for (const int sample : samples) {
      gradient[k] += slope(sample, parameter, k, descent.values()[parameter][k]) / static_cast<float>(samples.size());
    }
  }
}

// A backward pass over `samples`, last parameter first; leaves out `without` as a branch not taken would.
void backward(Distributed& optimizer, const std::vector<int>& samples, size_t without = kParameters) {
  for (size_t i = kParameters; i-- > 0;) {
    if (i == without) continue;
    add_gradient(*optimizer.operator->(), i, samples);
    optimizer.gradient_ready(i);
  }
}

std::vector<int> samples_of(int rank, int step, int per_rank, int size) {
  std::vector<int> samples;
  for (int i = 0; i < per_rank; ++i) samples.push_back(step * size * per_rank + rank * per_rank + i);
  return samples;
}

// What one process computes that sees the samples of all ranks in each step.
std::vector<std::vector<float>> reference(int size, int steps, int per_rank, float factor = 1) {
  Descent descent(1.0F);
  for (int step = 0; step < steps; ++step) {
    for (size_t i = 0; i < kParameters; ++i) {
      std::fill(descent.gradient(i).begin(), descent.gradient(i).end(), 0.0F);
      add_gradient(descent, i, samples_of(0, step, size * per_rank, 1));
      for (float& value : descent.gradient(i)) value *= factor;
    }
    descent.step();
  }
  return descent.values();
}

// The values after one step with the mean slope of `samples`.
std::vector<std::vector<float>> after_a_step(const std::vector<int>& samples) {
  Descent descent(1);
  for (size_t i = 0; i < kParameters; ++i) add_gradient(descent, i, samples);
  descent.step();
  return descent.values();
}

void expect_near(const std::vector<std::vector<float>>& got, const std::vector<std::vector<float>>& wanted,
                 double tolerance) {
  for (size_t i = 0; i < kParameters; ++i) {
    for (size_t k = 0; k < wanted[i].size(); ++k) {
      const double difference = std::abs(static_cast<double>(got[i][k]) - static_cast<double>(wanted[i][k]));
      expect(difference <= tolerance, "parameter " + std::to_string(i) + "[" + std::to_string(k) + "] is " +
                                          std::to_string(got[i][k]) + ", expected " + std::to_string(wanted[i][k]));
    }
  }
}

void expect_refused(const std::function<void()>& call, const std::string& words) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return expect(std::string(error.what()).find(words) != std::string::npos,
                  std::string(error.what()) + " does not say " + words);
  }
  expect(false, "not refused: " + words);
}

constexpr int kTrainingSteps = 6;
constexpr int kPerRank = 3;

// Trains on `size` ranks with `options` and compares with the reference; all ranks must hold the same bits.
void expect_equals_reference(int size, const DistributedOptimizerOptions& options, double tolerance, float factor = 1) {
  std::vector<std::vector<std::vector<float>>> results(static_cast<size_t>(size));
  cpp_ranks(size, [&](Session& session) {
    const int root = size - 1;
    Distributed optimizer(session, Descent(session.rank() == root ? 1.0F : -7.0F), options);
    optimizer.broadcast_parameters(root);
    optimizer.broadcast_optimizer_state(root);
    for (int step = 0; step < kTrainingSteps; ++step) {
      optimizer.zero_grad();
      for (int pass = 0; pass < options.backward_passes_per_step; ++pass) {
        backward(optimizer, samples_of(session.rank(), step, kPerRank, size));
      }
      expect(optimizer.step(0.1F) == step + 1, "step() does not return what the wrapped one does");
    }
    results[static_cast<size_t>(session.rank())] = optimizer->values();
  });
  expect_near(results[0], reference(size, kTrainingSteps, kPerRank, factor), tolerance);
  for (const auto& result : results) CHECK(result == results[0]);
}

}  // namespace

TEST_CASE("training on ranks equals training on the joined batch") {
  for (const int size : {1, 2, 3}) expect_equals_reference(size, {}, 1e-5);
}

TEST_CASE("groups of gradients change nothing in the result") {
  for (const int groups : {1, 2, 5, 50}) expect_equals_reference(2, {.num_groups = groups}, 1e-5);
}

TEST_CASE("op sum adds the ranks' gradients") { expect_equals_reference(2, {.op = ReduceOp::kSum}, 1e-5, 2); }

TEST_CASE("gradients add up over the backward passes of a step, or are averaged over them") {
  expect_equals_reference(2, {.backward_passes_per_step = 3}, 1e-5, 3);
  expect_equals_reference(2, {.backward_passes_per_step = 3, .accumulation = Accumulation::kAverage}, 1e-5, 1);
}

TEST_CASE("predividing leaves the average what it is") {
  expect_equals_reference(3, {.gradient_predivide_factor = 4.0}, 1e-5);
}

TEST_CASE("compressed gradients give nearly the same result and the same bits on all ranks") {
  expect_equals_reference(2, {.compression = Codec::kFp16}, 5e-3);
  expect_equals_reference(2, {.compression = Codec::kBf16}, 4e-2);
}

TEST_CASE("a parameter without a gradient on some ranks counts as zeros there") {
  cpp_ranks(2, [](Session& session) {
    Distributed optimizer(session, Descent(1.0F), {.op = ReduceOp::kSum});
    for (size_t i = 0; i < kParameters; ++i)
      optimizer->gradient(i).assign(optimizer->gradient(i).size(), 99.0F);  // stale
    for (size_t i = 1; i < kParameters; ++i) {
      optimizer->gradient(i).assign(optimizer->gradient(i).size(), 1.0F);
      if (i != 2 || session.rank() == 0) optimizer.gradient_ready(Descent::name(i));
    }
    optimizer.synchronize();
    expect(optimizer->gradient(0)[0] == 0, "no rank had a gradient of w0");
    expect(optimizer->gradient(2)[8] == 1, "one rank had a gradient of w2");
    expect(optimizer->gradient(3)[15] == 2, "both ranks had a gradient of w3");
  });
}

TEST_CASE("what cannot be is refused when the wrapper is made") {
  cpp_ranks(1, [](Session& session) {
    const auto make = [&](const DistributedOptimizerOptions& options, const std::string& second = "w1") {
      return [&session, options, second] { const Distributed optimizer(session, Descent(0, second), options); };
    };
    expect_refused(make({}, "w3"), "'w3'");
    expect_refused(make({}, ""), "no name");
    expect_refused(make({.op = ReduceOp::kMax}), "op");
    expect_refused(make({.op = ReduceOp::kSum, .gradient_predivide_factor = 2}), "average");
    expect_refused(make({.gradient_predivide_factor = 0}), "positive");
    expect_refused(make({.num_groups = -1}), "num_groups");
    expect_refused(make({.backward_passes_per_step = 0}), "backward_passes_per_step");
  });
}

TEST_CASE("a backward pass too many is refused with the parameter's name") {
  cpp_ranks(1, [](Session& session) {
    Distributed optimizer(session, Descent(1), {.backward_passes_per_step = 2});
    optimizer.gradient_ready(3);
    optimizer.gradient_ready(3);
    expect_refused([&] { optimizer.gradient_ready(3); }, "'w3'");
    expect_refused([&] { optimizer.gradient_ready(kParameters); }, "5 parameters");
    expect_refused([&] { optimizer.gradient_ready("w9"); }, "'w9'");
    expect_refused([&] { optimizer.set_backward_passes_per_step(4); }, "between backward");
    optimizer.step();
    optimizer.set_backward_passes_per_step(1);
    optimizer.gradient_ready("w3");
    optimizer.step();
  });
}

TEST_CASE("zero_grad between backward and step is refused, before and after it is fine") {
  cpp_ranks(1, [](Session& session) {
    Distributed optimizer(session, Descent(1));
    optimizer.zero_grad();
    optimizer->gradient(2)[0] = 5;
    optimizer.gradient_ready(2);
    expect_refused([&] { optimizer.zero_grad(); }, "'w2'");
    optimizer.step();
    expect(optimizer->gradient(2)[0] == 5, "the gradient was dropped");
    optimizer.zero_grad();
    expect(optimizer->gradient(2)[0] == 0, "the gradient was not zeroed");
  });
}

TEST_CASE("gradients may be changed between synchronize and step inside skip_synchronize") {
  cpp_ranks(2, [](Session& session) {
    std::vector<std::string> warnings;
    Distributed optimizer(session, Descent(1),
                          {.op = ReduceOp::kSum, .warn = [&](std::string_view line) { warnings.emplace_back(line); }});
    for (int step = 0; step < 3; ++step) {
      backward(optimizer, {session.rank()});
      optimizer.synchronize();
      const float reduced = optimizer->gradient(4)[0];
      optimizer->gradient(4)[0] = 0.25F * reduced;
      const auto scope = optimizer.skip_synchronize();
      optimizer.step();
      expect(optimizer->gradient(4)[0] == 0.25F * reduced, "the gradient was reduced again");
      for (size_t i = 0; i < kParameters; ++i) optimizer->gradient(i).assign(optimizer->gradient(i).size(), 0.0F);
    }
    expect(warnings.empty(), warnings.empty() ? "" : warnings[0]);
    const auto scope = optimizer.skip_synchronize();
    expect_refused([&] { optimizer.step(); }, "without synchronize()");
  });
}

TEST_CASE("step after a manual synchronize outside skip_synchronize warns and does not reduce twice") {
  cpp_ranks(2, [](Session& session) {
    std::vector<std::string> warnings;
    Distributed optimizer(session, Descent(1),
                          {.op = ReduceOp::kSum, .warn = [&](std::string_view line) { warnings.emplace_back(line); }});
    backward(optimizer, {session.rank()});
    optimizer.synchronize();
    const float reduced = optimizer->gradient(4)[0];
    expect_refused([&] { optimizer.synchronize(); }, "twice");
    expect_refused([&] { optimizer.gradient_ready(0); }, "'w0'");
    optimizer.step();
    expect(warnings.size() == 1 && optimizer->gradient(4)[0] == reduced,
           "warnings: " + std::to_string(warnings.size()));
    optimizer.zero_grad();
    backward(optimizer, {session.rank()});
    optimizer.step();
    expect(warnings.size() == 1, "a step without synchronize() warns");
  });
}

TEST_CASE("two wrappers of one session have names of their own") {
  cpp_ranks(2, [](Session& session) {
    Distributed first(session, Descent(1));
    Distributed second(session, Descent(1));
    backward(first, {session.rank()});
    backward(second, {2 + session.rank()});  // the same parameter names, in flight at once
    second.step();
    first.step();
    expect_near(first->values(), after_a_step({0, 1}), 1e-6);
    expect_near(second->values(), after_a_step({2, 3}), 1e-6);
  });
}

TEST_CASE("a wrapper that was refused leaves no gap in the names: its rank tries again and meets the others") {
  cpp_ranks(2, [](Session& session) {
    if (session.rank() == 1) {
      expect_refused([&] { Distributed(session, Descent(1, "w0")); }, "two parameters are named 'w0'");
      expect_refused([&] { Distributed(session, Descent(1), {.backward_passes_per_step = 0}); }, "at least 1");
    }
    Distributed optimizer(session, Descent(static_cast<float>(session.rank() + 1)));
    optimizer.broadcast_parameters(0);
    expect(optimizer->values()[3][2] == 1, "the parameters are not rank 0's");
  });
}

TEST_CASE("a gradient whose enqueue is refused is not counted, and can be reported again") {
  std::promise<void> refused;
  const std::shared_future<void> was_refused = refused.get_future().share();
  cpp_ranks(2, [&](Session& session) {
    Distributed optimizer(session, Descent(1), {.op = ReduceOp::kSum});
    std::vector<float> busy(1);
    const AllreduceOptions taken{.op = ReduceOp::kSum, .name = "optimizer.0.gradient.w0"};
    add_gradient(*optimizer.operator->(), 0, {session.rank()});
    if (session.rank() == 0) {
      const Handle handle = session.allreduce_async(busy, taken);
      expect_refused([&] { optimizer.gradient_ready(0); }, "already in flight");
      refused.set_value();
      handle.wait();
    } else {
      was_refused.wait();
      session.allreduce(busy, taken);
    }
    for (size_t i = 0; i < kParameters; ++i) optimizer.gradient_ready(i);
    optimizer.step();
    const double wanted = static_cast<double>(slope(0, 0, 0, 1)) + static_cast<double>(slope(1, 0, 0, 1));
    expect(std::abs(static_cast<double>(optimizer->gradient(0)[0]) - wanted) < 1e-5, "the gradient was not reduced");
  });
}

TEST_CASE("an error of one gradient is thrown once nothing is in flight, and training can go on") {
  cpp_ranks(2, [](Session& session) {
    struct Uneven {
      std::vector<float> value, gradient, other_value = {0}, other_gradient = {1};
      std::vector<Named> parameters() { return {{"odd", value, gradient}, {"even", other_value, other_gradient}}; }
      void step() {}
    };
    const size_t count = session.rank() == 0 ? 3 : 4;
    DistributedOptimizer optimizer(session, Uneven{std::vector<float>(count), std::vector<float>(count)});
    bool failed = false;
    try {
      optimizer.step();
    } catch (const Mismatch& error) {
      failed = std::string(error.what()).find("odd") != std::string::npos;
    }
    expect(failed, "gradients of [3] and [4] were reduced");
    Distributed good(session, Descent(1));
    backward(good, {session.rank()});
    good.step();
  });
}

}  // namespace rueda::test
