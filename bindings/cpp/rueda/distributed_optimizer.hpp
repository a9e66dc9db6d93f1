#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <iostream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rueda/gradient_groups.hpp"
#include "rueda/session.hpp"

namespace rueda {

/// A named tensor of an optimizer's parameters: `value` is what it trains, `gradient` what its step reads. Both are
/// views of memory that stays where it is as long as the wrapper lives, equal in shape and dtype on all ranks.
template <typename P>
concept OptimizerParameter = requires(P& parameter) {
  { parameter.name } -> std::convertible_to<std::string_view>;
  Tensor(parameter.value);
  Tensor(parameter.gradient);
};

/// Anything with `parameters()`, a range of the above, and `step()`, which applies the gradients. Where it has
/// `state()`, a range of {name, value}, its state can be broadcast.
template <typename O>
concept Optimizer = requires(O& optimizer) {
  requires OptimizerParameter<std::remove_reference_t<decltype(*std::begin(optimizer.parameters()))>>;
  optimizer.step();
};
template <typename O>
concept StatefulOptimizer = Optimizer<O> && requires(O& optimizer) {
  { std::begin(optimizer.state())->name } -> std::convertible_to<std::string_view>;
  Tensor(std::begin(optimizer.state())->value);
};

/// What becomes of gradients added up over several backward passes.
enum class Accumulation {
  kSum,     ///< reduced as they are
  kAverage  ///< divided by the number of passes
};

struct DistributedOptimizerOptions {
  ReduceOp op = ReduceOp::kAverage;  ///< average or sum
  Codec compression = Codec::kDefault;
  int backward_passes_per_step = 1;
  Accumulation accumulation = Accumulation::kSum;
  double gradient_predivide_factor = 1.0;  ///< divides before the sum, multiplies after it; average only
  int num_groups = 0;                      ///< gradients are reduced in so many groups; 0: each by itself
  int32_t process_set = RUEDA_GLOBAL_SET;
  std::function<void(std::string_view)> warn = [](std::string_view line) { std::cerr << "rueda: " << line << '\n'; };
};

/// Wraps an optimizer so that its step sees gradients reduced over all ranks. Each gradient is enqueued, in place, when
/// the backward pass reports it ready; `step()` waits for all of them and then runs the wrapped step.
///
///   rueda::DistributedOptimizer optimizer(session, Sgd(model, 0.1f), {.compression = rueda::Codec::kFp16});
///   optimizer.broadcast_parameters(0);
///   for (...) { optimizer.zero_grad(); backward(..., [&](size_t i) { optimizer.gradient_ready(i); });
///   optimizer.step(); }
///
/// All ranks make their wrappers in the same order, which gives each a name space of its own, and step together. Owned
/// and used by one thread. Misuse throws InvalidArgument and leaves everything as it was. The session outlives the
/// wrapper, whose destructor takes back gradients still in flight (see `Handle`).
template <Optimizer Wrapped>
class DistributedOptimizer {
 public:
  /// InvalidArgument: an empty or doubled parameter name, an op other than average and sum, predivide with sum, a
  /// factor, group or pass count out of range.
  DistributedOptimizer(Session& session, Wrapped optimizer, DistributedOptimizerOptions options = {})
      : session_(session), optimizer_(std::move(optimizer)), options_(std::move(options)) {
    detail::require_valid(options_.op, options_.gradient_predivide_factor, options_.num_groups);
    set_backward_passes_per_step(options_.backward_passes_per_step);
    for (auto&& parameter : optimizer_.parameters()) {
      const std::string name(parameter.name);
      detail::require(!name.empty(), "parameter " + std::to_string(parameters_.size()) + " has no name");
      detail::require(index_of_.emplace(name, parameters_.size()).second, "two parameters are named '" + name + "'");
      parameters_.push_back({name, Tensor(parameter.value), Tensor(parameter.gradient)});
    }
    groups_ = detail::GradientGroups(parameters_.size(), static_cast<size_t>(options_.num_groups));
    passes_.assign(parameters_.size(), 0);
    // Last: a rank that is refused and tries again still has the same names as the others.
    prefix_ = "optimizer." + std::to_string(session.next_name_space()) + ".";
  }
  DistributedOptimizer(const DistributedOptimizer&) = delete;  // tensors point into the wrapped optimizer
  DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;

  Wrapped* operator->() { return &optimizer_; }
  const Wrapped* operator->() const { return &optimizer_; }

  /// The gradient of parameter `index`, in the order of `parameters()`, holds what this backward pass adds. On the last
  /// pass of the step it is enqueued, and must not be touched until `synchronize()` or `step()`.
  /// InvalidArgument: no such parameter, or more passes than `backward_passes_per_step`. Where the enqueue itself
  /// throws, the pass is not counted, and the call can be repeated.
  void gradient_ready(size_t index) {
    detail::require(index < parameters_.size(), "gradient_ready(" + std::to_string(index) + "): there are " +
                                                    std::to_string(parameters_.size()) + " parameters");
    const int limit = options_.backward_passes_per_step;
    detail::require(passes_[index] < limit && !synchronized_,
                    "gradient of '" + parameters_[index].name + "': more than " + std::to_string(limit) +
                        " backward passes (backward_passes_per_step) before step()");
    const size_t group = groups_.group_of(index);
    const bool last_pass = passes_[index] + 1 == limit;
    if (last_pass && groups_.missing(group) == 1) enqueue(group);
    ++passes_[index];
    if (last_pass) groups_.member_ready(index);
  }
  /// InvalidArgument also: no such name.
  void gradient_ready(const std::string& name) {
    const auto found = index_of_.find(name);
    detail::require(found != index_of_.end(), "gradient_ready('" + name + "'): no parameter has this name");
    gradient_ready(found->second);
  }

  /// Enqueues what is not yet, parameters without a gradient as zeros so that ranks agree, and waits for all: the
  /// gradients are the reduced ones afterwards. Throws the first error once nothing is in flight; the gradients are
  /// then unspecified and the step's passes forgotten.
  void synchronize() {
    detail::require(!synchronized_, "synchronize() twice before step()");
    try {
      enqueue_rest();
      wait_for_all();
    } catch (...) {
      forget_passes();
      throw;
    }
    synchronized_ = true;
  }

  /// Waits for the gradients as `synchronize()` does, unless it was called before in a `skip_synchronize()` scope, then
  /// runs the wrapped step with `arguments` and returns its result. After `synchronize()` outside such a scope it
  /// warns.
  template <typename... Arguments>
  decltype(auto) step(Arguments&&... arguments) {
    if (!synchronized_) {
      detail::require(!skipping_, "step() inside skip_synchronize() without synchronize() before");
      synchronize();
    } else if (!skipping_ && options_.warn) {
      options_.warn("step() after synchronize() outside skip_synchronize(): the gradients are not reduced again");
    }
    forget_passes();
    return optimizer_.step(std::forward<Arguments>(arguments)...);
  }

  /// While the result lives, `step()` takes the gradients as they are after `synchronize()`: clipped, unscaled, looked
  /// at.
  class SkipScope {
   public:
    explicit SkipScope(DistributedOptimizer& owner) : owner_(owner) { owner_.skipping_ = true; }
    ~SkipScope() { owner_.skipping_ = false; }
    SkipScope(const SkipScope&) = delete;
    SkipScope& operator=(const SkipScope&) = delete;

   private:
    DistributedOptimizer& owner_;
  };
  [[nodiscard]] SkipScope skip_synchronize() { return SkipScope(*this); }

  /// Sets all gradients to zero. InvalidArgument: between a backward pass and step() or synchronize(), where it would
  /// drop them. After synchronize() it gives the step up, as loss scaling does on an overflow.
  void zero_grad() {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      detail::require(passes_[i] == 0 || synchronized_, "zero_grad() between backward and step(): the gradient of '" +
                                                            parameters_[i].name + "' would be lost");
    }
    for (const Parameter& parameter : parameters_) clear(parameter.gradient);
  }

  /// InvalidArgument: less than 1, or inside a step.
  void set_backward_passes_per_step(int passes) {
    detail::require(passes >= 1, "backward_passes_per_step is " + std::to_string(passes) + ", at least 1 is needed");
    for (const int done : passes_)
      detail::require(done == 0, "backward_passes_per_step changed between backward and step()");
    options_.backward_passes_per_step = passes;
  }

  /// Copies all parameters of rank `root` to every rank. Blocks.
  void broadcast_parameters(int32_t root) {
    std::vector<Handle> handles;
    for (const Parameter& parameter : parameters_) {
      handles.push_back(broadcast("parameter." + parameter.name, parameter.value, root));
    }
    detail::wait_for_each(handles);
  }
  /// Copies the optimizer's state, which all ranks have in the same shapes, from rank `root`. Blocks.
  void broadcast_optimizer_state(int32_t root) requires StatefulOptimizer<Wrapped> {
    std::vector<Handle> handles;
    for (auto&& entry : optimizer_.state()) {
      handles.push_back(broadcast("state." + std::string(entry.name), Tensor(entry.value), root));
    }
    detail::wait_for_each(handles);
  }

 private:
  struct Parameter {
    std::string name;
    Tensor value;
    Tensor gradient;
  };

  static void clear(const Tensor& tensor) {
    if (tensor.bytes() != 0) std::memset(tensor.data(), 0, tensor.bytes());
  }
  Handle broadcast(const std::string& name, const Tensor& tensor, int32_t root) {
    return session_.broadcast_async(tensor,
                                    {.root = root, .name = prefix_ + name, .process_set = options_.process_set});
  }

  AllreduceOptions reduction(const std::string& name) const {
    const double passes =
        options_.accumulation == Accumulation::kAverage ? static_cast<double>(options_.backward_passes_per_step) : 1.0;
    return {.op = options_.op,
            .name = prefix_ + name,
            .process_set = options_.process_set,
            .codec = options_.compression,
            .prescale = 1.0 / (options_.gradient_predivide_factor * passes),
            .postscale = options_.gradient_predivide_factor};
  }
  void enqueue(size_t group) {
    const auto [first, last] = groups_.members(group);
    if (options_.num_groups == 0) {
      const Parameter& parameter = parameters_[first];
      handles_.push_back(session_.allreduce_async(parameter.gradient, reduction("gradient." + parameter.name)));
    } else {
      std::vector<Tensor> gradients;
      for (size_t i = first; i < last; ++i) gradients.push_back(parameters_[i].gradient);
      handles_.push_back(session_.grouped_allreduce_async(gradients, reduction("group." + std::to_string(group))));
    }
    groups_.mark_enqueued(group);
  }
  void enqueue_rest() {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (passes_[i] == 0) clear(parameters_[i].gradient);
    }
    for (size_t group = 0; group < groups_.size(); ++group) {
      if (!groups_.enqueued(group)) enqueue(group);
    }
  }
  void wait_for_all() {
    const std::vector<Handle> handles = std::exchange(handles_, {});
    detail::wait_for_each(handles);
  }
  void forget_passes() {
    handles_.clear();
    passes_.assign(passes_.size(), 0);
    groups_.reset();
    synchronized_ = false;
  }

  Session& session_;
  Wrapped optimizer_;
  DistributedOptimizerOptions options_;
  std::string prefix_;
  std::vector<Parameter> parameters_;
  std::unordered_map<std::string, size_t> index_of_;
  detail::GradientGroups groups_;
  std::vector<int> passes_;  ///< backward passes since the last step, by parameter
  bool synchronized_ = false;
  bool skipping_ = false;
  std::vector<Handle> handles_;  ///< after the gradients' owner, so that it goes first and takes them back
};

}  // namespace rueda
