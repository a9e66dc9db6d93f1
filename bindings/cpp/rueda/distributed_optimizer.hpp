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

/// A named tensor among an optimizer's parameters. `value` is the trained parameter, `gradient` the input of the
/// optimizer's step. Both are views of memory that must not move while the wrapper lives. Shapes and dtypes are equal
/// on all ranks.
template <typename P>
concept OptimizerParameter = requires(P& parameter) {
  { parameter.name } -> std::convertible_to<std::string_view>;
  Tensor(parameter.value);
  Tensor(parameter.gradient);
};

/// A type with `parameters()`, a range of `Parameter`, and `step()`, which applies the gradients. If it also has
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

/// The treatment of gradients that were accumulated over several backward passes.
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
  int num_groups = 0;                      ///< number of groups in which gradients are reduced; 0: each gradient alone
  int32_t process_set = RUEDA_GLOBAL_SET;
  std::function<void(std::string_view)> warn = [](std::string_view line) { std::cerr << "rueda: " << line << '\n'; };
};

/// Wraps an optimizer so that its step uses gradients reduced over all ranks. Each gradient is enqueued, in place, when
/// the backward pass reports it ready; `step()` waits for all of them and then runs the wrapped step.
///
///   rueda::DistributedOptimizer optimizer(session, Sgd(model, 0.1f), {.compression = rueda::Codec::kFp16});
///   optimizer.broadcast_parameters(0);
///   for (...) { optimizer.zero_grad(); backward(..., [&](size_t i) { optimizer.gradient_ready(i); });
///   optimizer.step(); }
///
/// All ranks make their wrappers in the same order, so that each wrapper gets a name space of its own, and call
/// `step()` together. One thread owns and uses a wrapper. A wrong call throws InvalidArgument and changes nothing. The
/// session must outlive the wrapper. The destructor takes back gradients that are still in flight (see `Handle`).
template <Optimizer Wrapped>
class DistributedOptimizer {
 public:
  /// InvalidArgument: a parameter name is empty or occurs twice, the op is neither average nor sum, a predivide factor
  /// is given with a sum, or a factor, group count or pass count is out of range.
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

  /// Reports that the gradient of parameter `index` (in the order of `parameters()`) holds the contribution of this
  /// backward pass. On the last pass of a step the gradient is enqueued and must not be touched until `synchronize()`
  /// or `step()` returns. InvalidArgument: no such parameter, or more passes than `backward_passes_per_step`. If the
  /// enqueue itself throws, the pass is not counted, and the call can be repeated.
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
  /// The same by name. InvalidArgument also: no parameter has this name.
  void gradient_ready(const std::string& name) {
    const auto found = index_of_.find(name);
    detail::require(found != index_of_.end(), "gradient_ready('" + name + "'): no parameter has this name");
    gradient_ready(found->second);
  }

  /// Enqueues the gradients that are not enqueued yet and waits for all; afterwards they hold the reduced values. A
  /// parameter without a gradient takes part with zeros, so that ranks agree. Throws the first error once nothing is in
  /// flight; the gradients are then unspecified, and the passes of the step are forgotten.
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

  /// Waits for the gradients as `synchronize()` does, then runs the wrapped step with `arguments` and returns its
  /// result. Does not wait again if `synchronize()` was called before inside a `skip_synchronize()` scope; warns if it
  /// was called outside such a scope.
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

  /// While the returned object lives, `step()` uses the gradients as they are after `synchronize()`, for example
  /// clipped or unscaled by the caller.
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

  /// Sets all gradients to zero. After `synchronize()` it gives the step up, as loss scaling does on an overflow.
  /// InvalidArgument: between a backward pass and `step()` or `synchronize()`, because gradients would be lost.
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

  /// Copies the parameters of rank `root` to every rank. Blocks.
  void broadcast_parameters(int32_t root) {
    std::vector<Handle> handles;
    for (const Parameter& parameter : parameters_) {
      handles.push_back(broadcast("parameter." + parameter.name, parameter.value, root));
    }
    detail::wait_for_each(handles);
  }
  /// Copies the optimizer's state from rank `root` to every rank. The state has the same names and shapes on all ranks.
  /// Blocks.
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
  std::vector<Handle> handles_;  ///< behind the gradients' owner: destroyed first, which takes them back
};

}  // namespace rueda
