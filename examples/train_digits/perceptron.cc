// The forward and backward pass of the network, written out as loops. `backward` goes from the last layer to the first
// and reports each gradient as soon as it is complete, so that its all-reduce overlaps with the layers before it.

#include "perceptron.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace {

// Replaces the logits of one image by the gradient of its loss (softmax minus the label) and returns the loss.
double softmax_slope(std::span<float> logits, int label) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  float sum = 0;
  for (float& logit : logits) sum += logit = std::exp(logit - largest);
  for (float& logit : logits) logit /= sum;
  float& at_label = logits[static_cast<size_t>(label)];
  const double loss = -std::log(std::max(static_cast<double>(at_label), 1e-30));
  at_label -= 1;
  return loss;
}

}  // namespace

Perceptron::Perceptron(std::span<const size_t> widths, uint32_t seed) {
  std::mt19937 random(seed);
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    Layer layer{widths[i], widths[i + 1], {}, {}, {}, {}, {}};
    std::uniform_real_distribution<float> weight(-1, 1);
    const float bound = std::sqrt(6.0F / static_cast<float>(layer.inputs));
    for (size_t k = 0; k < layer.inputs * layer.outputs; ++k) layer.weight.push_back(bound * weight(random));
    layer.weight_gradient.assign(layer.weight.size(), 0);
    layer.bias.assign(layer.outputs, 0);
    layer.bias_gradient.assign(layer.outputs, 0);
    layers_.push_back(std::move(layer));
  }
}

std::vector<Parameter> Perceptron::parameters() {
  std::vector<Parameter> all;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const std::string name = "layer" + std::to_string(i);
    all.push_back({name + ".weight", layers_[i].weight, layers_[i].weight_gradient});
    all.push_back({name + ".bias", layers_[i].bias, layers_[i].bias_gradient});
  }
  return all;
}

void Perceptron::apply(const Layer& layer, size_t count, std::vector<float>& out) {
  out.resize(count * layer.outputs);
  for (size_t image = 0; image < count; ++image) {
    float* const to = out.data() + image * layer.outputs;
    std::copy(layer.bias.begin(), layer.bias.end(), to);
    for (size_t i = 0; i < layer.inputs; ++i) {
      const float from = layer.in[image * layer.inputs + i];
      const float* const weight = layer.weight.data() + i * layer.outputs;
      for (size_t k = 0; k < layer.outputs; ++k) to[k] += from * weight[k];
    }
  }
}

std::span<const float> Perceptron::forward(std::span<const float> images, size_t count) {
  layers_.front().in.assign(images.begin(), images.end());
  for (size_t i = 0; i + 1 < layers_.size(); ++i) {
    std::vector<float>& out = layers_[i + 1].in;
    apply(layers_[i], count, out);
    for (float& value : out) value = std::max(value, 0.0F);
  }
  apply(layers_.back(), count, logits_);
  return logits_;
}

void Perceptron::add_gradients(Layer& layer, std::span<const float> slope) {
  const size_t count = slope.size() / layer.outputs;
  for (size_t image = 0; image < count; ++image) {
    const float* const from = slope.data() + image * layer.outputs;
    for (size_t k = 0; k < layer.outputs; ++k) layer.bias_gradient[k] += from[k];
    for (size_t i = 0; i < layer.inputs; ++i) {
      const float in = layer.in[image * layer.inputs + i];
      float* const gradient = layer.weight_gradient.data() + i * layer.outputs;
      for (size_t k = 0; k < layer.outputs; ++k) gradient[k] += in * from[k];
    }
  }
}

std::vector<float> Perceptron::slope_before(const Layer& layer, std::span<const float> slope) {
  std::vector<float> before(layer.in.size());
  for (size_t at = 0; at < before.size(); ++at) {
    if (layer.in[at] <= 0) continue;  // the gradient of ReLU is zero if its input was not positive
    const float* const from = slope.data() + at / layer.inputs * layer.outputs;
    const float* const weight = layer.weight.data() + at % layer.inputs * layer.outputs;
    for (size_t k = 0; k < layer.outputs; ++k) before[at] += from[k] * weight[k];
  }
  return before;
}

double Perceptron::backward(std::span<const int> labels, const std::function<void(size_t)>& ready) {
  const size_t classes = layers_.back().outputs;
  std::vector<float> slope = logits_;
  double loss = 0;
  for (size_t image = 0; image < labels.size(); ++image) {
    loss += softmax_slope(std::span(slope).subspan(image * classes, classes), labels[image]);
  }
  for (float& value : slope) value /= static_cast<float>(labels.size());
  for (size_t i = layers_.size(); i-- > 0;) {
    add_gradients(layers_[i], slope);
    ready(2 * i + 1);
    ready(2 * i);
    if (i > 0) slope = slope_before(layers_[i], slope);
  }
  return loss;
}

size_t Perceptron::correct(std::span<const float> images, std::span<const int> labels) {
  const size_t classes = layers_.back().outputs;
  const std::span<const float> logits = forward(images, labels.size());
  size_t right = 0;
  for (size_t image = 0; image < labels.size(); ++image) {
    const auto of_image = logits.subspan(image * classes, classes);
    const auto largest = std::max_element(of_image.begin(), of_image.end()) - of_image.begin();
    if (largest == labels[image]) ++right;
  }
  return right;
}
