#pragma once
#include <cstddef>
#include <vector>

namespace rueda::perf {

/// Elements of the 161 parameters of ResNet-50 (He et al., "Deep Residual Learning for Image Recognition", 2015) with
/// 1000 classes, in the order of its layers: 25,557,032 in all.
std::vector<size_t> resnet50_parameter_counts();

}  // namespace rueda::perf
