#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "perceptron.h"

/// Gradient descent with momentum: v = momentum * v + gradient; value -= rate * v.
class Sgd {
 public:
  struct State {
    std::string name;
    std::span<float> value;
  };

  Sgd(Perceptron& model, float momentum) : parameters_(model.parameters()), momentum_(momentum) {
    for (const Parameter& parameter : parameters_) velocity_.emplace_back(parameter.value.size(), 0.0F);
  }
  void set_learning_rate(float rate) { rate_ = rate; }

  std::vector<Parameter>& parameters() { return parameters_; }
  std::vector<State> state() {
    std::vector<State> all;
    for (size_t i = 0; i < velocity_.size(); ++i) all.push_back({parameters_[i].name + ".velocity", velocity_[i]});
    return all;
  }
  void step() {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const Parameter& parameter = parameters_[i];
      for (size_t k = 0; k < parameter.value.size(); ++k) {
        velocity_[i][k] = momentum_ * velocity_[i][k] + parameter.gradient[k];
        parameter.value[k] -= rate_ * velocity_[i][k];
      }
    }
  }

 private:
  std::vector<Parameter> parameters_;
  std::vector<std::vector<float>> velocity_;
  float momentum_;
  float rate_ = 0;
};
