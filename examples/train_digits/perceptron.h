#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

/// A trained tensor and its gradient, as views of a model's memory.
struct Parameter {
  std::string name;
  std::span<float> value;
  std::span<float> gradient;
};

/// A fully connected network: ReLU between layers, softmax and cross-entropy at the end.
class Perceptron {
 public:
  /// `widths`: inputs, hidden layers, classes. Weights are uniform in He's bound (He et al., 2015), biases zero.
  Perceptron(std::span<const size_t> widths, uint32_t seed);

  /// Returns two per layer: "layer0.weight", "layer0.bias", ... The views stay valid as long as the model, even if it
  /// is moved.
  std::vector<Parameter> parameters();
  /// Returns the logits of `count` images, `classes` for each image. They stay valid until the next call.
  std::span<const float> forward(std::span<const float> images, size_t count);
  /// Adds the gradient of the mean loss over the images of the last `forward` and returns the sum of their losses.
  /// Calls `ready(i)` when the gradient of `parameters()[i]` is complete, last layer first.
  double backward(std::span<const int> labels, const std::function<void(size_t)>& ready);
  /// Returns how many of the images have their label as the largest logit.
  size_t correct(std::span<const float> images, std::span<const int> labels);

 private:
  struct Layer {
    size_t inputs;
    size_t outputs;
    std::vector<float> weight, weight_gradient;  ///< [inputs][outputs]
    std::vector<float> bias, bias_gradient;      ///< [outputs]
    std::vector<float> in;                       ///< input of the last forward, [count][inputs]
  };
  static void apply(const Layer& layer, size_t count, std::vector<float>& out);
  static void add_gradients(Layer& layer, std::span<const float> slope);
  static std::vector<float> slope_before(const Layer& layer, std::span<const float> slope);

  std::vector<Layer> layers_;
  std::vector<float> logits_;
};
