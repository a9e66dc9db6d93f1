// The gradients of ResNet-50 by its architecture (He et al., 2015): a stem, four stages of bottleneck blocks, a
// classifier. Real sizes from 64 to 2,359,296 elements, many of them small: the mix that fusion is for.
#include "benchmarks/rueda_perf/resnet50.h"

namespace rueda::perf {
namespace {

// A convolution without bias, and its batch normalisation: weight and bias.
void add_convolution(std::vector<size_t>& counts, size_t in, size_t out, size_t kernel) {
  counts.push_back(out * in * kernel * kernel);
  counts.push_back(out);
  counts.push_back(out);
}

// Three convolutions; the first block of a stage also projects its input to its width.
void add_bottleneck(std::vector<size_t>& counts, size_t in, size_t width) {
  const size_t out = 4 * width;
  add_convolution(counts, in, width, 1);
  add_convolution(counts, width, width, 3);
  add_convolution(counts, width, out, 1);
  if (in != out) add_convolution(counts, in, out, 1);
}

}  // namespace

std::vector<size_t> resnet50_parameter_counts() {
  struct Stage {
    size_t blocks;
    size_t width;
  };
  std::vector<size_t> counts;
  add_convolution(counts, 3, 64, 7);
  size_t channels = 64;
  for (const Stage& stage : {Stage{3, 64}, Stage{4, 128}, Stage{6, 256}, Stage{3, 512}}) {
    for (size_t block = 0; block < stage.blocks; ++block) {
      add_bottleneck(counts, channels, stage.width);
      channels = 4 * stage.width;
    }
  }
  counts.push_back(1000 * channels);
  counts.push_back(1000);
  return counts;
}

}  // namespace rueda::perf
