#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rueda/tensor.hpp"

namespace rueda::detail {

/// A tensor as rueda.h takes it, or null.
class COneOrNone {
 public:
  explicit COneOrNone(const ConstTensor* tensor) : given_(tensor != nullptr) {
    if (given_) c_ = tensor->c_tensor();
  }
  const rueda_tensor* data() const { return given_ ? &c_ : nullptr; }

 private:
  bool given_;
  rueda_tensor c_{};
};

/// An array of tensors as rueda.h takes it. `data` is null for an empty list and for outputs that are left out.
class CTensors {
 public:
  template <typename T>
  explicit CTensors(std::span<const T> tensors) {
    for (const T& tensor : tensors) c_.push_back(tensor.c_tensor());
  }
  /// InvalidArgument: the numbers of inputs and outputs differ, and there are outputs.
  CTensors(std::span<const Tensor> outputs, size_t inputs) : CTensors(outputs) {
    if (c_.empty() || c_.size() == inputs) return;
    throw InvalidArgument(RUEDA_INVALID_ARGUMENT,
                          std::to_string(c_.size()) + " outputs for a group of " + std::to_string(inputs) + " tensors");
  }
  size_t count() const { return c_.size(); }
  const rueda_tensor* data() const { return c_.empty() ? nullptr : c_.data(); }

 private:
  std::vector<rueda_tensor> c_;
};

/// The names of a group's tensors; none: "<name>.<i>". Borrows the texts.
class CNames {
 public:
  CNames(std::span<const std::string> names, size_t tensors) {
    if (names.empty()) return;
    if (names.size() != tensors) {
      throw InvalidArgument(RUEDA_INVALID_ARGUMENT, std::to_string(names.size()) + " names for a group of " +
                                                        std::to_string(tensors) + " tensors");
    }
    for (const std::string& name : names) c_.push_back(name.c_str());
  }
  const char* const* data() const { return c_.empty() ? nullptr : c_.data(); }

 private:
  std::vector<const char*> c_;
};

/// The arrays of one group.
class CGroup {
 public:
  template <typename T>
  CGroup(std::span<const T> inputs, std::span<const Tensor> outputs, std::span<const std::string> names)
      : inputs_(inputs), outputs_(outputs, inputs.size()), names_(names, inputs.size()) {}
  size_t count() const { return inputs_.count(); }
  const rueda_tensor* inputs() const { return inputs_.data(); }
  const rueda_tensor* outputs() const { return outputs_.data(); }
  const char* const* names() const { return names_.data(); }

 private:
  CTensors inputs_;
  CTensors outputs_;
  CNames names_;
};

/// A list of splits for each of `tensors` tensors. An empty list, or no lists at all: rows are dealt out evenly.
class CSplits {
 public:
  CSplits(std::span<const std::vector<int64_t>> splits, size_t tensors, size_t members) {
    if (splits.empty()) return;
    if (splits.size() != tensors) {
      throw InvalidArgument(RUEDA_INVALID_ARGUMENT, std::to_string(splits.size()) + " lists of splits for a group of " +
                                                        std::to_string(tensors) + " tensors");
    }
    for (const std::vector<int64_t>& list : splits) {
      if (!list.empty() && list.size() != members) {
        throw InvalidArgument(RUEDA_INVALID_ARGUMENT,
                              std::to_string(list.size()) + " splits for " + std::to_string(members) + " ranks");
      }
      lists_.push_back(list.empty() ? nullptr : list.data());
    }
  }
  const int64_t* const* data() const { return lists_.empty() ? nullptr : lists_.data(); }

 private:
  std::vector<const int64_t*> lists_;
};

}  // namespace rueda::detail
